"""A person in a session: who, and in which place, a tenant or the operators' console."""

from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import RowMapping

from loraplex.engine.protocol.identity import TenantNamespace
from loraplex.platform.audit.actors import Actor, ActorKind
from loraplex.platform.people.models import SignInMethod
from loraplex.platform.tenancy.errors import TenantSuspended
from loraplex.platform.tenancy.identity import TenantId
from loraplex.platform.tenancy.models import TenantState
from loraplex.platform.tenancy.principals import (
    SCOPES_OF,
    OperatorPrincipal,
    OperatorRole,
    Principal,
    Role,
    TenantPrincipal,
)


@dataclass(frozen=True, slots=True)
class Client:
    """Where a request of a person came from."""

    address: str
    user_agent: str
    request_id: str | None = None


@dataclass(frozen=True, slots=True)
class MemberPlace:
    """The tenant that a session is in, and the person's role there."""

    tenant_id: TenantId
    tenant_name: str
    namespace: TenantNamespace
    tenant_state: TenantState
    membership_id: UUID
    role: Role


@dataclass(frozen=True, slots=True)
class SignedInPerson:
    """Who a session's cookie was given to."""

    session_id: UUID
    user_id: UUID
    email: str
    display_name: str
    operator_role: OperatorRole | None
    method: SignInMethod
    has_password: bool
    place: MemberPlace | None
    """None: among the operators."""

    @classmethod
    def of(cls, row: RowMapping) -> "SignedInPerson":
        place = None
        if row["tenant_id"] is not None:
            place = MemberPlace(
                tenant_id=TenantId(row["tenant_id"]),
                tenant_name=row["tenant_name"],
                namespace=TenantNamespace(row["namespace"]),
                tenant_state=TenantState(row["tenant_state"]),
                membership_id=row["membership_id"],
                role=Role(row["role"]),
            )
        operator_role = row["operator_role"]
        return cls(
            session_id=row["session_id"],
            user_id=row["user_id"],
            email=row["email"],
            display_name=row["display_name"],
            operator_role=None if operator_role is None else OperatorRole(operator_role),
            method=SignInMethod(row["method"]),
            has_password=row["has_password"],
            place=place,
        )

    @property
    def principal(self) -> Principal:
        """What the person may do where they are; raises TenantSuspended."""
        if self.place is None:
            # A session outside of tenants is an operator's: the database lets no other live.
            assert self.operator_role is not None
            return OperatorPrincipal(None, self.user_id, self.email, self.operator_role)
        if self.place.tenant_state is not TenantState.ACTIVE:
            raise TenantSuspended(self.place.tenant_name)
        return TenantPrincipal(
            tenant_id=self.place.tenant_id,
            tenant_name=self.place.tenant_name,
            namespace=self.place.namespace,
            key_id=None,
            member_id=self.place.membership_id,
            role=self.place.role,
            scopes=SCOPES_OF[self.place.role],
            models=None,
            label=self.email,
        )

    def actor(self, client: Client) -> Actor:
        return Actor(ActorKind.PERSON, self.user_id, self.email, client.address, client.request_id)
