"""People's sessions, on role `app`: signing in by password, and what else people do with them."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from sqlalchemy import RowMapping
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.platform.audit.actors import Actor, ActorKind, Target
from loraplex.platform.audit.service import record
from loraplex.platform.database.sessions import Database
from loraplex.platform.people import repository, throttle
from loraplex.platform.people.emails import normal_email
from loraplex.platform.people.errors import (
    InvalidLogin,
    NoPlace,
    NotYourPlace,
    SessionNotFound,
)
from loraplex.platform.people.passwords import Passwords, check_new_password
from loraplex.platform.people.signed_in import Client, SignedInPerson
from loraplex.platform.people.tokens import Tokens
from loraplex.platform.secrets import SecretKeys
from loraplex.platform.tenancy.errors import InvalidSession
from loraplex.platform.tenancy.principals import Role
from loraplex.platform.tenancy.throttle import FailureThrottle, network_of


class Place(NamedTuple):
    """A tenant that a person could be in."""

    tenant_name: str
    tenant_state: str
    role: Role


class SessionView(NamedTuple):
    """One of a person's sessions, as they see it."""

    session_id: UUID
    tenant_name: str | None
    method: str
    address: str
    user_agent: str
    created_at: datetime
    expires_at: datetime
    is_current: bool


class PeopleSessions:
    """What one gateway does for people who sign in, and for those who are signed in."""

    def __init__(
        self,
        database: Database,
        secret_keys: SecretKeys,
        passwords: Passwords,
        address_throttle: FailureThrottle | None = None,
    ) -> None:
        self._database = database
        self._passwords = passwords
        self._throttle = address_throttle or FailureThrottle(database)
        self.tokens = Tokens(secret_keys)

    async def sign_in(
        self, email: str, password: str, client: Client
    ) -> tuple[str, SignedInPerson]:
        """Open a session: its token, for an HttpOnly cookie, and who signed in.

        It ends after twelve hours, when it is closed, and when the account's password changes, the
        account is disabled or the membership ends. Raises InvalidLogin, TooManyLogins,
        TooManyFailures, LoginsBusy and NoPlace.
        """
        email = normal_email(email)
        checked = await self._checked(email, password, client)
        token, opening = self.tokens.new(client)
        rehashed = None
        if self._passwords.is_outdated(checked["password_hash"]):
            rehashed = await self._passwords.hash(password)
        known = {"user_id": checked["user_id"], "checked_hash": checked["password_hash"]}
        async with self._database.unit_of_work() as session:
            opened = await repository.one(session, repository.OPEN_SESSION, **known, **opening)
            raise_unless_opened(opened, "open_person_session")
            if rehashed is not None:
                await repository.one(
                    session, repository.REHASH_PASSWORD, **known, new_hash=rehashed
                )
            person = await repository.find_session(session, self.tokens.hashes(token))
            assert person is not None, "the session was opened in this transaction"
            await record_sign_in(session, person, client)
        return token, person

    async def find(self, token: str) -> SignedInPerson:
        """Who this session's token was given to; raises InvalidSession."""
        async with self._database.unit_of_work() as session:
            person = await repository.find_session(session, self.tokens.hashes(token))
        if person is None:
            raise InvalidSession
        return person

    async def close(self, token: str) -> None:
        """End a session; a token that is unknown or has ended already does no harm."""
        async with self._database.unit_of_work() as session:
            await repository.one(
                session, repository.CLOSE_SESSION, hashes=self.tokens.hashes(token)
            )

    async def places(self, token: str) -> list[Place]:
        """The tenants of which the person is a member, by name."""
        async with self._database.unit_of_work() as session:
            rows = await repository.every(
                session, repository.PLACES, hashes=self.tokens.hashes(token)
            )
        return [Place(row["tenant_name"], row["tenant_state"], Role(row["role"])) for row in rows]

    async def choose_place(self, token: str, tenant: str | None) -> SignedInPerson:
        """Go to another tenant, or with None among the operators; raises NotYourPlace."""
        hashes = self.tokens.hashes(token)
        async with self._database.unit_of_work() as session:
            chosen = await repository.one(
                session, repository.CHOOSE_PLACE, hashes=hashes, tenant=tenant
            )
            if chosen is None or not chosen["choose_place"]:
                raise NotYourPlace(tenant)
            person = await repository.find_session(session, hashes)
        if person is None:
            raise InvalidSession
        return person

    async def list_own(self, token: str) -> Sequence[SessionView]:
        """The person's live sessions, newest first."""
        async with self._database.unit_of_work() as session:
            rows = await repository.every(
                session, repository.LIST_SESSIONS, hashes=self.tokens.hashes(token)
            )
        return [SessionView(**row) for row in rows]

    async def end_own(self, token: str, session_id: UUID | None) -> int:
        """End one of the person's sessions, or with None all but this one; how many ended.

        Raises SessionNotFound.
        """
        async with self._database.unit_of_work() as session:
            row = await repository.one(
                session,
                repository.END_SESSIONS,
                hashes=self.tokens.hashes(token),
                session_id=session_id,
            )
        ended: int = 0 if row is None else row["end_person_sessions"]
        if session_id is not None and ended == 0:
            raise SessionNotFound(session_id)
        return ended

    async def change_password(
        self, person: SignedInPerson, current: str, new: str, client: Client
    ) -> str:
        """Give the person another password; all their sessions end, and a new one begins.

        The new session's token. Raises InvalidLogin and what `sign_in` raises for a wrong current
        password, and WeakPassword.
        """
        check_new_password(new, person.email, field="new_password")
        checked = await self._checked(person.email, current, client)
        new_hash = await self._passwords.hash(new)
        token, opening = self.tokens.new(client)
        async with self._database.unit_of_work() as session:
            changed = await repository.one(
                session,
                repository.CHANGE_PASSWORD,
                user_id=checked["user_id"],
                checked_hash=checked["password_hash"],
                new_hash=new_hash,
            )
            if changed is None or not changed["change_password"]:
                raise InvalidLogin
            opened = await repository.one(
                session,
                repository.OPEN_SESSION,
                user_id=person.user_id,
                checked_hash=new_hash,
                **opening,
            )
            raise_unless_opened(opened, "open_person_session")
            if person.place is not None:
                await repository.one(
                    session,
                    repository.CHOOSE_PLACE,
                    hashes=self.tokens.hashes(token),
                    tenant=person.place.tenant_name,
                )
            await record(
                session,
                person.actor(client),
                "password.changed",
                tenant_id=None,
                target=Target("person", person.user_id, person.email),
            )
        return token

    async def _checked(self, email: str, password: str, client: Client) -> RowMapping:
        """The account of this e-mail and password; a failure is counted and raised."""
        self._throttle.refuse_known(network_of(client.address))
        async with self._database.unit_of_work() as session:
            await throttle.refuse_blocked(session, email, client.address)
            account = await repository.one(session, repository.FIND_ACCOUNT, email=email)
        known_hash = None if account is None else account["password_hash"]
        if await self._passwords.matches(known_hash, password) and account is not None:
            return account
        await self._throttle.count(client.address)
        async with self._database.unit_of_work() as session:
            await throttle.count_failure(session, email, client.address)
            await record(
                session,
                Actor(ActorKind.PERSON, None, email, client.address, client.request_id),
                "login.failed",
                tenant_id=None,
                target=Target("person", None, email),
            )
        raise InvalidLogin


def raise_unless_opened(row: RowMapping | None, function: str) -> None:
    """Raise InvalidLogin or NoPlace when a function opened no session."""
    outcome = None if row is None else row[function]
    if outcome == "no_place":
        raise NoPlace
    if outcome != "opened":
        raise InvalidLogin


async def record_sign_in(session: AsyncSession, person: SignedInPerson, client: Client) -> None:
    """Write into the audit log that a session was opened."""
    await record(
        session,
        person.actor(client),
        "session.opened",
        tenant_id=None,
        target=Target("person", person.user_id, person.email),
        after={"method": person.method.value},
    )
