"""How a model is named: `<base>`, `<adapter>`, `<tenant>/<adapter>`; then perhaps a version."""

import re
from collections.abc import Collection
from dataclasses import dataclass

from loraplex.adapters_registry.errors import InvalidAdapterName
from loraplex.adapters_registry.rollouts.errors import InvalidAliasName
from loraplex.engine.protocol.identity import Digest
from loraplex.platform.tenancy.names import TENANT_NAME

ADAPTER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}")
ALIAS_NAME = re.compile(r"(?!v[0-9]+\Z)[a-z0-9][a-z0-9._-]{0,63}")
"""Nothing that stands after a colon is both an alias and a version's number."""
MODEL_NAME = re.compile(
    r"(?:(?P<tenant>[^/:@]+)/)?(?P<adapter>[^/:@]+)"
    rf"(?::v(?P<number>[1-9][0-9]{{0,8}})|:(?P<alias>{ALIAS_NAME.pattern})"
    r"|@(?P<digest>sha256:[0-9a-f]{64}))?"
)

PROD = "prod"
"""What a bare adapter name means, where it is set."""
LATEST = "latest"
"""The newest version that can be called: computed, so nobody can move it."""


@dataclass(frozen=True, slots=True)
class ModelName:
    """A parsed adapter name, with at most one of alias, number and digest."""

    tenant: str | None
    adapter: str
    alias: str | None = None
    number: int | None = None
    digest: Digest | None = None


def parse_model_name(text: str) -> ModelName | None:
    """The parts of a model name; None when it cannot be one."""
    match = MODEL_NAME.fullmatch(text)
    if match is None or not ADAPTER_NAME.fullmatch(match["adapter"]):
        return None
    if match["tenant"] is not None and not TENANT_NAME.fullmatch(match["tenant"]):
        return None
    return ModelName(
        tenant=match["tenant"],
        adapter=match["adapter"],
        alias=match["alias"],
        number=int(match["number"]) if match["number"] else None,
        digest=Digest(match["digest"]) if match["digest"] else None,
    )


def check_adapter_name(name: str, base_names: Collection[str]) -> None:
    """Raise InvalidAdapterName unless the name can stand in a model name and is no base's."""
    bases = {base.casefold() for base in base_names}
    if not ADAPTER_NAME.fullmatch(name) or name.casefold() in bases:
        raise InvalidAdapterName(name)


def check_alias_name(name: str) -> None:
    """Raise InvalidAliasName unless the name can be set as an alias."""
    if not ALIAS_NAME.fullmatch(name) or name == LATEST:
        raise InvalidAliasName(name)


def canonical_name(
    tenant_name: str, adapter_name: str, number: int | None = None, *, alias: str | None = None
) -> str:
    """`<tenant>/<adapter>`, with `:vN` or `:<alias>` behind it when one of them is given."""
    name = f"{tenant_name}/{adapter_name}"
    if number is not None:
        return f"{name}:v{number}"
    return name if alias is None else f"{name}:{alias}"
