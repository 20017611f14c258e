"""Keys as answers, and the models of a request as what a key may be restricted to."""

from collections.abc import Sequence
from typing import Any

from loraplex.adapters_registry.versions.names import parse_model_name
from loraplex.api.key_schemas import (
    EVERY_MODEL,
    Key,
    KeyWithText,
    OperatorKey,
    OperatorKeyWithText,
)
from loraplex.api.refusals import InvalidValue
from loraplex.api.services import Services
from loraplex.platform.tenancy.key_rules import Models
from loraplex.platform.tenancy.key_views import ApiKeyView, KeyView, OperatorKeyView

MODELS_RULE = f"names of bases and of the tenant's adapters, or `{EVERY_MODEL}` alone"


def models_allowed(services: Services, tenant_name: str, names: Sequence[str]) -> Models:
    """Bare names of bases and adapters, or None for all; raises InvalidValue.

    A name need not exist yet; it covers all of an adapter's versions and aliases.
    """
    if list(names) == [EVERY_MODEL]:
        return None
    bases = services.catalogue.base_names or ()
    allowed = set()
    for place, text in enumerate(names):
        name = None if text in bases else parse_model_name(text)
        if name is not None:
            is_own = name.tenant in (None, tenant_name)
            is_whole = name.alias is None and name.number is None and name.digest is None
            name = name if is_own and is_whole else None
        if text not in bases and name is None:
            field = f"models[{place}]"
            raise InvalidValue(f"`{field}` should be one of: {MODELS_RULE}.", field=field)
        allowed.add(text if name is None else name.adapter)
    return frozenset(allowed)


def models_shown(models: Models) -> list[str]:
    return [EVERY_MODEL] if models is None else sorted(models)


def key_shown(view: ApiKeyView) -> Key:
    return Key(**_tenants(view))


def key_with_text(view: ApiKeyView, text: str) -> KeyWithText:
    return KeyWithText(**_tenants(view), api_key=text)


def operator_key_shown(view: OperatorKeyView) -> OperatorKey:
    return OperatorKey(**_operators(view))


def operator_key_with_text(view: OperatorKeyView, text: str) -> OperatorKeyWithText:
    return OperatorKeyWithText(**_operators(view), api_key=text)


def _tenants(view: ApiKeyView) -> dict[str, Any]:
    return _common(view) | {
        "member_id": None if view.member_id is None else str(view.member_id),
        "role": view.role,
        "scopes": sorted(view.scopes),
        "models": models_shown(view.models),
    }


def _operators(view: OperatorKeyView) -> dict[str, Any]:
    user_id = None if view.user_id is None else str(view.user_id)
    return _common(view) | {"user_id": user_id, "role": view.role}


def _common(view: KeyView) -> dict[str, Any]:
    return {
        "id": str(view.id),
        "name": view.name,
        "label": view.label,
        "state": view.state.value,
        "expires_at": view.expires_at,
        "disabled_at": view.disabled_at,
        "revoked_at": view.revoked_at,
        "last_used_at": view.last_used_at,
        "replaced_by": None if view.replaced_by_id is None else str(view.replaced_by_id),
        "created_at": view.created_at,
    }
