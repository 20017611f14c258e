"""Logins that went to the identity provider, and what becomes of those that come back."""

import base64
import hashlib
import json
import secrets
from datetime import timedelta
from typing import NamedTuple

from sqlalchemy import delete, func, insert, literal
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.platform.database.sessions import Database
from loraplex.platform.people import repository
from loraplex.platform.people.errors import InvalidLogin, NoPlace
from loraplex.platform.people.invitations import Invitations
from loraplex.platform.people.models import OidcLogin
from loraplex.platform.people.oidc.errors import LoginNotBegun
from loraplex.platform.people.oidc.group_roles import GroupRoles
from loraplex.platform.people.oidc.provider import Identity, Provider, ProviderSettings
from loraplex.platform.people.sessions import PeopleSessions, record_sign_in
from loraplex.platform.people.signed_in import Client, SignedInPerson
from loraplex.platform.secrets import SecretKeys
from loraplex.platform.settings import Settings

PURPOSE = "oidc-login"
LIFETIME = timedelta(minutes=10)
"""How long a person may take at the provider's."""
RANDOM_BYTES = 32


class Begun(NamedTuple):
    """Where the browser goes, and what it keeps in a cookie to come back with."""

    address: str
    state: str


class Returned(NamedTuple):
    """A session's token, who signed in, and where they wanted to go."""

    token: str
    person: SignedInPerson
    next_path: str


class OidcLogins:
    """What one gateway does for people who sign in through the provider."""

    def __init__(
        self,
        database: Database,
        secret_keys: SecretKeys,
        sessions: PeopleSessions,
        provider: Provider,
        group_roles: GroupRoles,
    ) -> None:
        self._database = database
        self._secrets = secret_keys
        self._sessions = sessions
        self._invitations = Invitations(secret_keys)
        self._provider = provider
        self._group_roles = group_roles

    @classmethod
    def from_settings(
        cls,
        settings: Settings,
        database: Database,
        secret_keys: SecretKeys,
        sessions: PeopleSessions,
    ) -> "OidcLogins | None":
        """None where no provider is configured; raises InvalidGroupRoles."""
        if settings.oidc_issuer is None or settings.oidc_client_id is None:
            return None
        provider = Provider(
            ProviderSettings(
                issuer=settings.oidc_issuer,
                client_id=settings.oidc_client_id,
                client_secret=settings.oidc_client_secret,
                scopes=settings.oidc_scopes,
                groups_claim=settings.oidc_groups_claim,
            )
        )
        roles = GroupRoles.parse(settings.oidc_group_roles)
        return cls(database, secret_keys, sessions, provider, roles)

    async def begin(
        self, redirect_uri: str, *, next_path: str = "/", invitation: str | None = None
    ) -> Begun:
        """Prepare a login that may come back once, to this browser; raises OidcUnavailable."""
        state, nonce, verifier = (secrets.token_urlsafe(RANDOM_BYTES) for _ in range(3))
        digest = hashlib.sha256(verifier.encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        address = await self._provider.login_address(
            redirect_uri=redirect_uri, state=state, nonce=nonce, challenge=challenge
        )
        kept = {
            "nonce": nonce,
            "verifier": verifier,
            "redirect_uri": redirect_uri,
            "next_path": next_path,
            "invitation": invitation,
        }
        async with self._database.unit_of_work() as session:
            await session.execute(
                insert(OidcLogin).values(
                    state_hash=self._secrets.mac(PURPOSE, state.encode()),
                    sealed=self._secrets.encrypt(PURPOSE, json.dumps(kept).encode()),
                    expires_at=func.now() + literal(LIFETIME),
                )
            )
        return Begun(address, state)

    async def finish(self, state: str, code: str, client: Client) -> Returned:
        """Open a session for whom the code was given.

        Raises LoginNotBegun for a state that is unknown, too old, or has been used; and
        LoginRefused, EmailUnverified, OidcUnavailable, InvalidLogin and NoPlace.
        """
        kept = await self._take(state)
        identity = await self._provider.identify(
            code,
            redirect_uri=kept["redirect_uri"],
            nonce=kept["nonce"],
            verifier=kept["verifier"],
        )
        token, opening = self._sessions.tokens.new(client)
        async with self._database.unit_of_work() as session:
            await self._open(session, identity, kept["invitation"], opening)
            person = await repository.find_session(session, self._sessions.tokens.hashes(token))
            assert person is not None, "the session was opened in this transaction"
            await record_sign_in(session, person, client)
        return Returned(token, person, kept["next_path"])

    async def give_up(self, state: str) -> None:
        """Forget a login that the provider refused; raises LoginNotBegun."""
        await self._take(state)

    async def _take(self, state: str) -> dict[str, str]:
        """What was kept under the state, which nobody can use a second time."""
        mine = OidcLogin.state_hash.in_(self._secrets.macs(PURPOSE, state.encode()))
        async with self._database.unit_of_work() as session:
            sealed = await session.scalar(
                delete(OidcLogin)
                .where(mine, OidcLogin.expires_at > func.now())
                .returning(OidcLogin.sealed)
            )
        if sealed is None:
            raise LoginNotBegun
        kept: dict[str, str] = json.loads(self._secrets.decrypt(PURPOSE, sealed))
        return kept

    async def _open(
        self,
        session: AsyncSession,
        identity: Identity,
        invitation: str | None,
        opening: dict[str, object],
    ) -> None:
        grants = self._group_roles.of(identity.groups)
        row = await repository.one(
            session,
            repository.SIGN_IN_BY_IDENTITY,
            issuer=identity.issuer,
            subject=identity.subject,
            email=identity.email,
            display_name=identity.display_name,
            operator_role=None if grants.operator_role is None else grants.operator_role.value,
            tenants=list(grants.tenants),
            roles=[role.value for role in grants.tenants.values()],
            invitation_hashes=[] if invitation is None else self._invitations.hashes(invitation),
            **opening,
        )
        outcome = None if row is None else row["sign_in_by_identity"]
        if outcome == "no_place":
            raise NoPlace
        if outcome != "opened":
            raise InvalidLogin
