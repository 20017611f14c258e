"""What a provider's groups mean here: an operator's role, or roles in tenants."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from loraplex.platform.people.oidc.errors import InvalidGroupRoles
from loraplex.platform.tenancy.principals import SCOPES_OF, OperatorRole, Role


@dataclass(frozen=True)
class Grants:
    """What somebody's groups give them."""

    operator_role: OperatorRole | None = None
    tenants: Mapping[str, Role] = field(default_factory=dict)


class GroupRoles:
    """The map of LORAPLEX_OIDC_GROUP_ROLES."""

    def __init__(self, roles: Mapping[str, Grants]) -> None:
        self._roles = roles

    @classmethod
    def parse(cls, text: str | None) -> "GroupRoles":
        """From JSON, of a group to `admin`, `admin_viewer`, `tenant/role` or a list of these.

        Raises InvalidGroupRoles.
        """
        try:
            told = json.loads(text or "{}")
        except ValueError:
            raise InvalidGroupRoles("it is not JSON") from None
        if not isinstance(told, dict):
            raise InvalidGroupRoles("it is not an object")
        return cls({group: _granted(group, value) for group, value in told.items()})

    def of(self, groups: Collection[str]) -> Grants:
        """All that these groups give; of two roles in one place the one that may do more."""
        return _joined([self._roles[group] for group in groups if group in self._roles])


def _granted(group: str, value: object) -> Grants:
    roles = value if isinstance(value, list) else [value]
    return _joined([_one(group, role) for role in roles])


def _one(group: str, text: object) -> Grants:
    try:
        if not isinstance(text, str):
            raise ValueError("no text")
        tenant, slash, role = text.partition("/")
        return Grants(tenants={tenant: Role(role)}) if slash else Grants(OperatorRole(text))
    except ValueError:
        raise InvalidGroupRoles(f"the group {group!r} has no role one could give") from None


def _joined(grants: Collection[Grants]) -> Grants:
    operators = {one.operator_role for one in grants}
    tenants: dict[str, Role] = {}
    for one in grants:
        for tenant, role in one.tenants.items():
            known = tenants.get(tenant)
            if known is None or SCOPES_OF[known] < SCOPES_OF[role]:
                tenants[tenant] = role
    strongest = next((role for role in OperatorRole if role in operators), None)
    return Grants(strongest, tenants)
