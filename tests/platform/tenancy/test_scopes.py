from itertools import pairwise

import pytest

from loraplex.platform.tenancy.scopes import SCOPES_OF, Role, Scope

WRITES = {scope for scope in Scope if scope.endswith(".write")}


def test_every_role_has_scopes() -> None:
    assert set(SCOPES_OF) == set(Role)
    assert all(SCOPES_OF.values())


def test_an_owner_may_do_everything() -> None:
    assert SCOPES_OF[Role.OWNER] == set(Scope)


def test_an_admin_leaves_only_the_tenant_to_its_owners() -> None:
    assert SCOPES_OF[Role.OWNER] - SCOPES_OF[Role.ADMIN] == {Scope.TENANT_WRITE}


def test_roles_before_inference_hold_what_the_next_one_holds() -> None:
    ladder = [Role.OWNER, Role.ADMIN, Role.DEVELOPER, Role.VIEWER]
    for more, less in pairwise(ladder):
        assert SCOPES_OF[more] > SCOPES_OF[less]


def test_a_viewer_changes_nothing_and_spends_nothing() -> None:
    assert not SCOPES_OF[Role.VIEWER] & (WRITES | {Scope.MODELS_CALL})


def test_inference_only_calls() -> None:
    assert SCOPES_OF[Role.INFERENCE] == {Scope.MODELS_CALL}


@pytest.mark.parametrize("scope", [Scope.LIMITS_WRITE, Scope.MEMBERS_WRITE, Scope.TENANT_WRITE])
def test_a_developer_cannot_give_itself_more(scope: Scope) -> None:
    assert scope not in SCOPES_OF[Role.DEVELOPER]


def test_scopes_are_named_by_a_noun_and_a_verb() -> None:
    assert all(len(scope.split(".")) == 2 for scope in Scope)
