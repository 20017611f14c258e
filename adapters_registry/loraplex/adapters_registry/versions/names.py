"""How a model is named: `<base>`, `<adapter>`, `<tenant>/<adapter>`; then perhaps a version."""

import re
from collections.abc import Collection
from dataclasses import dataclass

from loraplex.adapters_registry.errors import InvalidAdapterName
from loraplex.engine.protocol.identity import Digest
from loraplex.platform.tenancy.names import TENANT_NAME

ADAPTER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}")
MODEL_NAME = re.compile(
    r"(?:(?P<tenant>[^/:@]+)/)?(?P<adapter>[^/:@]+)"
    r"(?::v(?P<number>[1-9][0-9]{0,8})|(?P<latest>:latest)|@(?P<digest>sha256:[0-9a-f]{64}))?"
)


@dataclass(frozen=True, slots=True)
class ModelName:
    """A parsed adapter name. With neither number nor digest it means the newest ready version."""

    tenant: str | None
    adapter: str
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
        number=int(match["number"]) if match["number"] else None,
        digest=Digest(match["digest"]) if match["digest"] else None,
    )


def check_adapter_name(name: str, base_names: Collection[str]) -> None:
    """Raise InvalidAdapterName unless the name can stand in a model name and is no base's."""
    bases = {base.casefold() for base in base_names}
    if not ADAPTER_NAME.fullmatch(name) or name.casefold() in bases:
        raise InvalidAdapterName(name)


def canonical_name(tenant_name: str, adapter_name: str, number: int | None = None) -> str:
    """`<tenant>/<adapter>`, or with a number `<tenant>/<adapter>:vN`."""
    name = f"{tenant_name}/{adapter_name}"
    return name if number is None else f"{name}:v{number}"
