"""One identity provider: found by discovery, asked for tokens, and believed only as it signs."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode, urlsplit

import httpx
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet
from pydantic import SecretStr

from loraplex.platform.people.oidc.errors import (
    EmailUnverified,
    LoginRefused,
    OidcUnavailable,
)

DISCOVERY = "/.well-known/openid-configuration"
REMEMBERED_SECONDS = 3600.0
"""How long a provider's addresses and keys are believed; a key that is missing is asked for."""
ASKED_SECONDS = 10.0
LEEWAY_SECONDS = 60
ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA"]
"""Signatures of a key pair: never `none`, nor one that a shared secret makes."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Somebody the provider vouches for."""

    issuer: str
    subject: str
    email: str
    """Verified, lower case."""
    display_name: str
    groups: frozenset[str]


@dataclass(frozen=True, slots=True)
class ProviderSettings:
    issuer: str
    client_id: str
    client_secret: SecretStr | None
    scopes: str
    groups_claim: str


class Provider:
    """What a gateway asks of an identity provider. Raises OidcUnavailable when it cannot."""

    def __init__(self, settings: ProviderSettings) -> None:
        self._settings = settings
        self._metadata: Mapping[str, Any] | None = None
        self._keys: KeySet | None = None
        self._believed_until = 0.0

    async def login_address(
        self, *, redirect_uri: str, state: str, nonce: str, challenge: str
    ) -> str:
        """Where a browser goes to sign in."""
        metadata = await self._described()
        query = urlencode(
            {
                "response_type": "code",
                "client_id": self._settings.client_id,
                "redirect_uri": redirect_uri,
                "scope": self._settings.scopes,
                "state": state,
                "nonce": nonce,
                "code_challenge": challenge,
                "code_challenge_method": "S256",
            }
        )
        address = metadata["authorization_endpoint"]
        return f"{address}{'&' if urlsplit(address).query else '?'}{query}"

    async def identify(
        self, code: str, *, redirect_uri: str, nonce: str, verifier: str
    ) -> Identity:
        """Who a code was given for; raises LoginRefused and EmailUnverified.

        A code works once, with the verifier of the challenge that it was asked for with.
        """
        metadata = await self._described()
        tokens = await self._exchange(metadata, code, redirect_uri, verifier)
        claims = await self._claims(metadata, tokens, nonce)
        if "email_verified" not in claims and "userinfo_endpoint" in metadata:
            claims = {**claims, **await self._userinfo(metadata, tokens, claims["sub"])}
        email = claims.get("email")
        # Some providers say "true"; what is absent or anything else is no promise.
        if not isinstance(email, str) or claims.get("email_verified") not in (True, "true"):
            raise EmailUnverified
        groups = claims.get(self._settings.groups_claim, [])
        names = groups if isinstance(groups, list) else [groups]
        return Identity(
            issuer=self._settings.issuer,
            subject=str(claims["sub"]),
            email=email.strip().lower(),
            display_name=str(claims.get("name", ""))[:128],
            groups=frozenset(name for name in names if isinstance(name, str)),
        )

    async def _described(self) -> Mapping[str, Any]:
        if self._metadata is None or time.monotonic() > self._believed_until:
            metadata = await self._get(self._settings.issuer.rstrip("/") + DISCOVERY, "description")
            if metadata.get("issuer") != self._settings.issuer:
                raise OidcUnavailable("description of the issuer that is configured")
            for name in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
                if not isinstance(metadata.get(name), str):
                    raise OidcUnavailable(name)
            self._metadata, self._keys = metadata, None
            self._believed_until = time.monotonic() + REMEMBERED_SECONDS
        return self._metadata

    async def _exchange(
        self, metadata: Mapping[str, Any], code: str, redirect_uri: str, verifier: str
    ) -> Mapping[str, Any]:
        body = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "code_verifier": verifier,
        }
        secret = self._settings.client_secret
        methods = metadata.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
        if secret is not None and "client_secret_basic" in methods:
            auth: httpx.Auth = httpx.BasicAuth(self._settings.client_id, secret.get_secret_value())
        else:
            auth = httpx.Auth()  # none but what the body says
            body["client_id"] = self._settings.client_id
            if secret is not None:
                body["client_secret"] = secret.get_secret_value()
        try:
            async with httpx.AsyncClient(timeout=ASKED_SECONDS) as client:
                answer = await client.post(metadata["token_endpoint"], data=body, auth=auth)
        except httpx.HTTPError:
            raise OidcUnavailable("token endpoint") from None
        if answer.status_code >= 500:
            raise OidcUnavailable("token endpoint")
        if answer.status_code != httpx.codes.OK:
            raise LoginRefused("the code does not hold")
        return _object(answer, "tokens")

    async def _claims(
        self, metadata: Mapping[str, Any], tokens: Mapping[str, Any], nonce: str
    ) -> dict[str, Any]:
        id_token = tokens.get("id_token")
        if not isinstance(id_token, str):
            raise LoginRefused("there is no ID token")
        if self._keys is None:
            self._keys = await self._fetch_keys(metadata)
        try:
            claims = _verified(id_token, self._keys)
        except JoseError:
            self._keys = await self._fetch_keys(metadata)  # it may have a new one
            try:
                claims = _verified(id_token, self._keys)
            except JoseError:
                raise LoginRefused("the ID token's signature does not hold") from None
        registry = jwt.JWTClaimsRegistry(
            leeway=LEEWAY_SECONDS,
            iss={"essential": True, "value": self._settings.issuer},
            aud={"essential": True, "value": self._settings.client_id},
            sub={"essential": True},
            exp={"essential": True},
            nonce={"essential": True, "value": nonce},
        )
        try:
            registry.validate(claims)
        except JoseError as error:
            claim = getattr(error, "claim", "claims")
            raise LoginRefused(f"the ID token's {claim} does not hold") from None
        is_for_many = isinstance(claims["aud"], list) and len(claims["aud"]) > 1
        if (is_for_many or "azp" in claims) and claims.get("azp") != self._settings.client_id:
            raise LoginRefused("the ID token is for somebody else")
        return claims

    async def _fetch_keys(self, metadata: Mapping[str, Any]) -> KeySet:
        keys = await self._get(metadata["jwks_uri"], "keys")
        try:
            return KeySet.import_key_set(keys)  # type: ignore[arg-type]
        except (JoseError, ValueError, KeyError):
            raise OidcUnavailable("keys") from None

    async def _userinfo(
        self, metadata: Mapping[str, Any], tokens: Mapping[str, Any], subject: str
    ) -> Mapping[str, Any]:
        bearer = {"Authorization": f"Bearer {tokens.get('access_token')}"}
        told = await self._get(metadata["userinfo_endpoint"], "answer about you", bearer)
        if told.get("sub") != subject:
            raise LoginRefused("the provider speaks of somebody else")
        return told

    async def _get(
        self, address: str, what: str, headers: Mapping[str, str] | None = None
    ) -> Mapping[str, Any]:
        try:
            async with httpx.AsyncClient(timeout=ASKED_SECONDS) as client:
                answer = await client.get(address, headers=headers)
        except (httpx.HTTPError, httpx.InvalidURL):
            raise OidcUnavailable(what) from None
        if answer.status_code != httpx.codes.OK:
            raise OidcUnavailable(what)
        return _object(answer, what)


def _verified(id_token: str, keys: KeySet) -> dict[str, Any]:
    try:
        return dict(jwt.decode(id_token, keys, algorithms=ALGORITHMS).claims)
    except ValueError as error:  # no key has the token's id, or the token is none
        raise JoseError(str(error)) from None


def _object(answer: httpx.Response, what: str) -> Mapping[str, Any]:
    try:
        value = answer.json()
    except ValueError:
        raise OidcUnavailable(what) from None
    if not isinstance(value, dict):
        raise OidcUnavailable(what)
    return value
