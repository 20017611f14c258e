"""What Postgres says of a key or a session: whose it is, what it may, whether it still counts."""

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

from sqlalchemy import RowMapping

from loraplex.engine.protocol.identity import TenantNamespace
from loraplex.platform.tenancy.errors import TenantSuspended
from loraplex.platform.tenancy.identity import TenantId
from loraplex.platform.tenancy.models import TenantState
from loraplex.platform.tenancy.principals import OperatorPrincipal, Principal, TenantPrincipal
from loraplex.platform.tenancy.scopes import OperatorRole, Role, granted


class CredentialState(StrEnum):
    LIVE = "live"
    DISABLED = "disabled"
    """Put aside by its owner, who may enable it again."""
    EXPIRED = "expired"
    REVOKED = "revoked"
    """Ended for good: itself, or whoever it belongs to."""


@dataclass(frozen=True, slots=True)
class Credential:
    """A key or a session that exists, in whatever state."""

    state: CredentialState
    principal: Principal
    tenant_state: str | None
    seconds_left: float | None
    """Until it expires, counted from when Postgres was asked; None: it does not expire."""
    rows: frozenset[UUID]
    """Every row whose change may change any of this."""

    @classmethod
    def of(cls, row: RowMapping) -> "Credential":
        """From a row of gateway.key_credentials or gateway.session_credentials."""
        rows = (row["key_id"], row["member_id"], row["user_id"], row["tenant_id"])
        return cls(
            state=CredentialState(row["state"]),
            principal=_operator(row) if row["kind"] == "operator" else _tenant(row),
            tenant_state=row["tenant_state"],
            seconds_left=row["seconds_left"],
            rows=frozenset(one for one in rows if one is not None),
        )

    @property
    def is_live(self) -> bool:
        return self.state is CredentialState.LIVE

    def of_active_tenant(self) -> Principal:
        """The principal; raises TenantSuspended."""
        if isinstance(self.principal, TenantPrincipal) and self.tenant_state != TenantState.ACTIVE:
            raise TenantSuspended(self.principal.tenant_name)
        return self.principal


def _operator(row: RowMapping) -> OperatorPrincipal:
    return OperatorPrincipal(
        key_id=row["key_id"],
        user_id=row["user_id"],
        name=row["name"],
        role=OperatorRole(row["role"]),
    )


def _tenant(row: RowMapping) -> TenantPrincipal:
    role = Role(row["role"])
    models: Collection[str] | None = row["models"]
    return TenantPrincipal(
        tenant_id=TenantId(row["tenant_id"]),
        tenant_name=row["tenant_name"],
        namespace=TenantNamespace(row["namespace"]),
        key_id=row["key_id"],
        member_id=row["member_id"],
        role=role,
        scopes=granted(role, row["scopes"]),
        models=None if models is None else frozenset(models),
        label=f"{row['name']} ({row['label']})",
    )
