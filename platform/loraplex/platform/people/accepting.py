"""Following an invitation's link, on role `app`: by somebody new, or by whose account it is."""

from dataclasses import dataclass
from datetime import datetime

from loraplex.platform.audit.actors import Target
from loraplex.platform.audit.service import record
from loraplex.platform.database.sessions import Database
from loraplex.platform.people import repository, throttle
from loraplex.platform.people.errors import (
    InvitationNotFound,
    NoPlace,
    NotTheInvited,
    PasswordWanted,
)
from loraplex.platform.people.invitations import Invitations
from loraplex.platform.people.passwords import Passwords, check_new_password
from loraplex.platform.people.sessions import PeopleSessions
from loraplex.platform.people.signed_in import Client, SignedInPerson
from loraplex.platform.tenancy.principals import OperatorRole, Role

LONGEST_NAME = 128


@dataclass(frozen=True, slots=True)
class Offer:
    """What a link is to. Without a role of either kind it is to a new password."""

    email: str
    tenant_name: str | None
    role: Role | None
    operator_role: OperatorRole | None
    expires_at: datetime
    has_account: bool

    @property
    def is_new_password(self) -> bool:
        return self.role is None and self.operator_role is None


class Accepting:
    """What a gateway does for people who follow links."""

    def __init__(
        self,
        database: Database,
        invitations: Invitations,
        sessions: PeopleSessions,
        passwords: Passwords,
    ) -> None:
        self._database = database
        self._invitations = invitations
        self._sessions = sessions
        self._passwords = passwords

    async def look(self, token: str) -> Offer:
        """What the link is to; raises InvitationNotFound."""
        offer, _ = await self._found(token)
        return offer

    async def accept(
        self,
        token: str,
        client: Client,
        *,
        password: str | None = None,
        display_name: str = "",
        session_token: str | None = None,
    ) -> tuple[str, SignedInPerson]:
        """Follow the link, once: a session's token in the place it leads to, and who signed in.

        Somebody new chooses `password`; somebody who has an account proves it by the account's
        password or by a session of theirs. Raises InvitationNotFound, PasswordWanted,
        WeakPassword, NotTheInvited, LoginsBusy and TooManyLogins.
        """
        offer, known_hash = await self._found(token)
        new_hash = checked_hash = None
        if offer.is_new_password or not offer.has_account:
            if password is None:
                raise PasswordWanted
            check_new_password(password, offer.email)
            new_hash = await self._passwords.hash(password)
        elif password is not None:
            checked_hash = await self._proved(offer, known_hash, password, client)
        session_hashes = self._sessions.tokens.hashes(session_token) if session_token else []
        new_token, opening = self._sessions.tokens.new(client)
        async with self._database.unit_of_work() as session:
            row = await repository.one(
                session,
                repository.ACCEPT_INVITATION,
                hashes=self._invitations.hashes(token),
                checked_hash=checked_hash,
                session_hashes=session_hashes,
                new_hash=new_hash,
                display_name=display_name[:LONGEST_NAME],
                **opening,
            )
            _raise_unless_accepted(None if row is None else row["accept_invitation"])
            hashes = self._sessions.tokens.hashes(new_token)
            person = await repository.find_session(session, hashes)
            assert person is not None, "the session was opened in this transaction"
            await record(
                session,
                person.actor(client),
                "invitation.accepted",
                tenant_id=None,
                target=Target("person", person.user_id, person.email),
                after={
                    "tenant": offer.tenant_name,
                    "role": offer.role,
                    "operator_role": offer.operator_role,
                },
            )
        return new_token, person

    async def _found(self, token: str) -> tuple[Offer, str | None]:
        async with self._database.unit_of_work() as session:
            row = await repository.one(
                session, repository.FIND_INVITATION, hashes=self._invitations.hashes(token)
            )
        if row is None:
            raise InvitationNotFound
        offer = Offer(
            email=row["email"],
            tenant_name=row["tenant_name"],
            role=None if row["role"] is None else Role(row["role"]),
            operator_role=(
                None if row["operator_role"] is None else OperatorRole(row["operator_role"])
            ),
            expires_at=row["expires_at"],
            has_account=row["user_id"] is not None,
        )
        return offer, row["password_hash"]

    async def _proved(
        self, offer: Offer, known_hash: str | None, password: str, client: Client
    ) -> str | None:
        """The account's hash, which the password was found to match."""
        async with self._database.unit_of_work() as session:
            await throttle.refuse_blocked(session, offer.email, client.address)
        if await self._passwords.matches(known_hash, password):
            return known_hash
        async with self._database.unit_of_work() as session:
            await throttle.count_failure(session, offer.email, client.address)
        raise NotTheInvited


def _raise_unless_accepted(outcome: str | None) -> None:
    if outcome == "password_wanted":
        raise PasswordWanted
    if outcome == "unproved":
        raise NotTheInvited
    if outcome == "no_place":
        raise NoPlace
    if outcome != "accepted":
        raise InvitationNotFound
