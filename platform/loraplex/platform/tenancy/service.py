"""Turns a credential into a principal, and nothing else into one."""

import secrets
from datetime import timedelta

from loraplex.platform.database.sessions import Database
from loraplex.platform.secrets import SecretKeys
from loraplex.platform.tenancy import repository
from loraplex.platform.tenancy.administration import TenantAdministration
from loraplex.platform.tenancy.errors import InvalidKey, InvalidSession
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


class Authenticator:
    """A gateway's authentication, on role `app`.

    Every call asks Postgres, so a revoked key or a suspended tenant is refused from the next
    request on.
    """

    def __init__(
        self, database: Database, secret_keys: SecretKeys, throttle: FailureThrottle | None = None
    ) -> None:
        self._database = database
        self._secrets = secret_keys
        self._throttle = throttle or FailureThrottle(database)

    async def authenticate(self, key: str, address: str) -> Principal:
        """Who this key is. `address` is the client's, by which failures are throttled.

        Raises InvalidKey, TooManyFailures (instead of InvalidKey, never for a good key) and
        TenantSuspended. A malformed key is refused without being looked up.
        """
        principal = None
        if kind_of(key) is not None:
            hashes = self._secrets.macs(KEY_PURPOSE, key.encode())
            async with self._database.unit_of_work() as session:
                principal = await repository.find_key(session, hashes)
        return await self._known(principal, address)

    async def open_session(self, key: str, address: str) -> tuple[str, Principal]:
        """Exchange a key for a web session's token, to be kept in an HttpOnly cookie.

        The session ends after twelve hours, when it is closed, or with its key. Raises as
        `authenticate` does.
        """
        token = secrets.token_urlsafe(SESSION_TOKEN_BYTES)
        principal = None
        if kind_of(key) is not None:
            hashes = self._secrets.macs(KEY_PURPOSE, key.encode())
            token_hash = self._secrets.mac(SESSION_PURPOSE, token.encode())
            async with self._database.unit_of_work() as session:
                principal = await repository.open_session(
                    session, hashes, token_hash, SESSION_LIFETIME
                )
        return token, await self._known(principal, address)

    async def session(self, token: str) -> Principal:
        """Who this session's token was given to; raises InvalidSession and TenantSuspended."""
        async with self._database.unit_of_work() as session:
            principal = await repository.find_session(session, self._token_hashes(token))
        if principal is None:
            raise InvalidSession
        return principal

    async def close_session(self, token: str) -> None:
        """End a session; a token that is unknown or has ended already does no harm."""
        async with self._database.unit_of_work() as session:
            await repository.close_session(session, self._token_hashes(token))

    async def _known(self, principal: Principal | None, address: str) -> Principal:
        if principal is None:
            await self._throttle.count(address)
            raise InvalidKey
        return principal

    def _token_hashes(self, token: str) -> list[bytes]:
        return self._secrets.macs(SESSION_PURPOSE, token.encode())
