"""The bodies of people's routes on the wire: signing in, sessions, members, invitations."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from loraplex.api.schemas import WireModel

RoleName = Literal["owner", "admin", "developer", "viewer", "inference"]
OperatorRoleName = Literal["admin", "admin_viewer"]
Email = Annotated[str, StringConstraints(min_length=3, max_length=254)]
SecretText = Annotated[str, StringConstraints(min_length=1, max_length=1024)]
Token = Annotated[str, StringConstraints(min_length=1, max_length=256)]


class SignIn(WireModel):
    """By a key."""

    api_key: Annotated[str, StringConstraints(min_length=1, max_length=512)]


class PasswordSignIn(WireModel):
    """By a person's own e-mail address and password."""

    email: Email
    password: SecretText


class Person(WireModel):
    """Who signed in as themselves."""

    id: str
    email: str
    display_name: str
    operator_role: OperatorRoleName | None
    has_password: bool
    """False for those whom only an identity provider knows."""


class Place(WireModel):
    """A tenant that the person is a member of."""

    tenant: str
    state: str
    role: RoleName


class Session(WireModel):
    """Who is signed in, and what they may do."""

    kind: Literal["tenant", "operator"]
    tenant: str | None
    tenant_state: str | None
    """Of a suspended tenant nothing but this session can be had."""
    base_model: str
    role: str
    """A tenant's role, or an operator's."""
    scopes: list[str]
    person: Person | None
    """None for a session that was opened with a key."""
    places: list[Place]
    """Where the person may go with PATCH; empty for a key."""


class PlaceChoice(WireModel):
    """Exactly one of the two."""

    tenant: Annotated[str, StringConstraints(min_length=1, max_length=63)] | None = None
    operator: Literal[True] | None = None
    """Go among the operators."""


class PasswordChange(WireModel):
    current_password: SecretText
    new_password: SecretText


class OwnSession(WireModel):
    """One of the person's signed-in browsers."""

    id: str
    tenant: str | None
    method: Literal["password", "identity_provider"]
    address: str
    user_agent: str
    created_at: datetime
    expires_at: datetime
    is_current: bool


class OwnSessionList(WireModel):
    data: list[OwnSession]


class InvitationToken(WireModel):
    token: Token


class Acceptance(WireModel):
    """`password` is the one to have from now on, or, of somebody who has an account, theirs."""

    token: Token
    password: SecretText | None = None
    display_name: Annotated[str, StringConstraints(max_length=128)] = ""


class Offer(WireModel):
    """What an invitation leads to."""

    kind: Literal["tenant", "operator", "password"]
    email: str
    tenant: str | None
    role: str | None
    expires_at: datetime
    has_account: bool


class Member(WireModel):
    id: str
    email: str
    display_name: str
    role: RoleName
    source: Literal["invitation", "operator", "identity_provider"]
    """Who gave the role; an identity provider takes back what it gave."""
    is_disabled: bool
    last_signed_in_at: datetime | None
    created_at: datetime


class MemberList(WireModel):
    data: list[Member]
    next_cursor: str | None


class NewMember(WireModel):
    email: Email
    role: RoleName


class MemberChange(WireModel):
    role: RoleName


class Invitation(WireModel):
    id: str
    email: str
    role: str | None
    invited_by: str
    expires_at: datetime
    created_at: datetime


class NewInvitation(Invitation):
    """A link that works once. It is told here and nowhere else."""

    token: str
    link: str = Field(description="What to send to the person.")


class InvitationList(WireModel):
    data: list[Invitation]
    next_cursor: str | None


class SignInMethods(WireModel):
    identity_provider: str | None
    """What to call it on the button; None where none is configured."""


class OidcStart(WireModel):
    next: Annotated[
        str, StringConstraints(max_length=512, pattern=r"^/(?:[^/\\\x00-\x1f][^\\\x00-\x1f]*)?$")
    ] = "/"
    """A path of this origin to go to afterwards."""
    invitation: Token | None = None
    """An invitation to follow, if it is made out to the person who signs in."""


class OidcBeginning(WireModel):
    url: str
