import pytest

from loraplex.platform.people.oidc.errors import InvalidGroupRoles
from loraplex.platform.people.oidc.group_roles import Grants, GroupRoles
from loraplex.platform.tenancy.principals import OperatorRole, Role

ROLES = GroupRoles.parse(
    '{"staff": "admin", "support": "admin_viewer", "acme-dev": "acme/developer",'
    ' "leads": ["acme/owner", "globex/viewer"]}'
)


def test_groups_give_the_most_of_what_each_gives() -> None:
    assert ROLES.of(["acme-dev", "leads", "unknown"]) == Grants(
        None, {"acme": Role.OWNER, "globex": Role.VIEWER}
    )
    assert ROLES.of(["support", "staff"]).operator_role is OperatorRole.ADMIN
    assert ROLES.of([]) == Grants()
    assert GroupRoles.parse(None).of(["staff"]) == Grants()


@pytest.mark.parametrize("text", ["{", "[]", '{"a": "boss"}', '{"a": "acme/boss"}', '{"a": 1}'])
def test_a_map_that_gives_nothing_known_is_refused(text: str) -> None:
    with pytest.raises(InvalidGroupRoles):
        GroupRoles.parse(text)
