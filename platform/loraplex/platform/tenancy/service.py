"""Turns a credential into a principal, and nothing else into one."""

import secrets
from datetime import timedelta
from uuid import UUID

from loraplex.platform.database.changes import Changes
from loraplex.platform.database.sessions import Database
from loraplex.platform.secrets import SecretKeys
from loraplex.platform.tenancy import repository
from loraplex.platform.tenancy.administration import TenantAdministration
from loraplex.platform.tenancy.credential_cache import CredentialCache
from loraplex.platform.tenancy.credentials import Credential
from loraplex.platform.tenancy.errors import InvalidKey, InvalidSession
from loraplex.platform.tenancy.key_uses import KeyUses
from loraplex.platform.tenancy.keys import KEY_PURPOSE, kind_of
from loraplex.platform.tenancy.principals import OperatorPrincipal, Principal, TenantPrincipal
from loraplex.platform.tenancy.throttle import FailureThrottle

__all__ = [
    "Authenticator",
    "OperatorPrincipal",
    "Principal",
    "TenantAdministration",
    "TenantPrincipal",
]

SESSION_PURPOSE = "web-session"
SESSION_LIFETIME = timedelta(hours=12)
SESSION_TOKEN_BYTES = 32

KEYS_HANG_ON = ("api_keys", "operator_keys", "tenants", "memberships", "users")
SESSIONS_HANG_ON = (*KEYS_HANG_ON, "web_sessions", "operator_sessions")


class Authenticator:
    """A gateway's authentication, on role `app`.

    With `changes` it remembers for seconds what Postgres said: a revoked key or a suspended tenant
    is refused as soon as the change is heard of, and after CACHE_SECONDS if nothing is heard.
    Without, every call asks.
    """

    def __init__(
        self,
        database: Database,
        secret_keys: SecretKeys,
        throttle: FailureThrottle | None = None,
        *,
        changes: Changes | None = None,
    ) -> None:
        self.uses = KeyUses(database)
        self._database = database
        self._secrets = secret_keys
        self._throttle = throttle or FailureThrottle(database)
        self._keys = CredentialCache(changes, KEYS_HANG_ON)
        self._sessions = CredentialCache(changes, SESSIONS_HANG_ON)

    async def authenticate(self, key: str, address: str) -> Principal:
        """Who this key is. `address` is the client's, by which failures are throttled.

        Raises InvalidKey, TooManyFailures (instead of InvalidKey, never for a good key) and
        TenantSuspended. A malformed key is refused without being looked up.
        """
        credential = None
        if kind_of(key) is not None:
            hashes = self._secrets.macs(KEY_PURPOSE, key.encode())

            async def load() -> Credential | None:
                async with self._database.unit_of_work() as session:
                    return await repository.find_key(session, hashes)

            credential = await self._keys.find(hashes[0], load)
        return await self._known(credential, address)

    async def open_session(self, key: str, address: str) -> tuple[str, Principal]:
        """Exchange a key for a web session's token, to be kept in an HttpOnly cookie.

        The session ends after twelve hours, when it is closed, or with its key. Raises as
        `authenticate` does.
        """
        token = secrets.token_urlsafe(SESSION_TOKEN_BYTES)
        credential = None
        if kind_of(key) is not None:
            hashes = self._secrets.macs(KEY_PURPOSE, key.encode())
            token_hash = self._secrets.mac(SESSION_PURPOSE, token.encode())
            async with self._database.unit_of_work() as session:
                credential = await repository.open_session(
                    session, hashes, token_hash, SESSION_LIFETIME
                )
        return token, await self._known(credential, address)

    async def session(self, token: str) -> Principal:
        """Who this session's token was given to; raises InvalidSession and TenantSuspended."""
        hashes = self._token_hashes(token)

        async def load() -> Credential | None:
            async with self._database.unit_of_work() as session:
                return await repository.find_session(session, hashes)

        credential = await self._sessions.find(hashes[0], load)
        if credential is None or not credential.is_live:
            raise InvalidSession
        return self._seen(credential)

    async def close_session(self, token: str) -> None:
        """End a session; a token that is unknown or has ended already does no harm."""
        async with self._database.unit_of_work() as session:
            await repository.close_session(session, self._token_hashes(token))
        self.forget()

    def forget(self, row_id: UUID | None = None) -> None:
        """Ask Postgres anew about what hangs on this row, or, without one, about every session.

        For the gateway that made a change: it hears of it a moment after it has answered.
        """
        self._sessions.forget(row_id)
        if row_id is not None:
            self._keys.forget(row_id)

    async def _known(self, credential: Credential | None, address: str) -> Principal:
        if credential is None or not credential.is_live:
            await self._throttle.count(address)
            raise InvalidKey(None if credential is None else credential.state)
        return self._seen(credential)

    def _seen(self, credential: Credential) -> Principal:
        principal = credential.of_active_tenant()
        if principal.key_id is not None:
            self.uses.saw(principal.key_id)
        return principal

    def _token_hashes(self, token: str) -> list[bytes]:
        return self._secrets.macs(SESSION_PURPOSE, token.encode())
