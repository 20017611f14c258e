"""One example of each body that a route reads, by the body's model; tests hold them to it."""

from collections.abc import Mapping
from typing import Any

EXAMPLES: Mapping[str, dict[str, Any]] = {
    # Calls
    "ChatBody": {
        "model": "acme/support:prod",
        "messages": [{"role": "user", "content": "Where is my parcel?"}],
        "max_completion_tokens": 64,
        "temperature": 0,
    },
    "CompletionBody": {"model": "acme/support", "prompt": "Once upon a time", "max_tokens": 32},
    # Signing in
    "SignIn": {"api_key": "lpx_…"},
    "PasswordSignIn": {"email": "ada@example.com", "password": "correct horse battery staple"},
    "OidcStart": {"next": "/adapters"},
    "PlaceChoice": {"tenant": "acme"},
    "PasswordChange": {
        "current_password": "correct horse battery staple",
        "new_password": "seven purple ducks on a fence",
    },
    "InvitationToken": {"token": "the-token-of-the-link"},
    "Acceptance": {
        "token": "the-token-of-the-link",
        "password": "correct horse battery staple",
        "display_name": "Ada",
    },
    # A tenant's own
    "NewMember": {"email": "grace@example.com", "role": "developer"},
    "MemberChange": {"role": "viewer"},
    "NewKey": {
        "name": "production",
        "scopes": ["models.call"],
        "models": ["support"],
        "expires_at": "2030-01-01T00:00:00Z",
    },
    "KeyChanges": {"name": "batch", "is_disabled": True},
    "KeyRotation": {"overlap_seconds": 86400},
    "SubjectLimits": {"requests_per_minute": 60, "tokens_per_minute": 100000},
    "AliasTarget": {"version": 3},
    "RolloutPlan": {"alias": "prod", "version": 4, "weight": 10},
    "RolloutChange": {"weight": 50},
    "NewUpload": {
        "adapter": "support",
        "files": [
            {"name": "adapter_config.json", "size_bytes": 712},
            {"name": "adapter_model.safetensors", "size_bytes": 9_437_184},
        ],
    },
    "PartUrlsWanted": {"file": "adapter_model.safetensors", "parts": [1, 2]},
    "NoFields": {},
    "ImportRequest": {
        "adapter": "support",
        "source": {"kind": "hub", "repository": "acme/support-lora", "revision": "main"},
    },
    "NewWebhook": {
        "url": "https://hooks.example.com/loraplex",
        "event_types": ["adapter.version.validated", "alias.moved"],
    },
    "WebhookChanges": {"is_enabled": True},
    "Rotation": {"overlap_seconds": 86400},
    # Operators'
    "NewTenant": {"name": "acme", "display_name": "Acme Inc."},
    "TenantChange": {"display_name": "Acme Corporation"},
    "Suspension": {"reason": "the invoice of June is not paid"},
    "DeletionOrder": {"confirm": "acme"},
    "TenantLimits": {"tokens_per_minute": 1_000_000, "max_storage_bytes": 53_687_091_200},
    "Budgets": {"monthly_budget_micros": 250_000_000, "soft_budget_percent": 80},
    "NewPrice": {
        "base_model": "smollm2-135m-instruct",
        "input_micros_per_million": 200_000,
        "cached_input_micros_per_million": 50_000,
        "output_micros_per_million": 600_000,
        "currency": "EUR",
    },
    "SloOrder": {"slo_class": "interactive"},
    "NewOperator": {"email": "ops@example.com", "operator_role": "admin_viewer"},
    "PersonChange": {"is_disabled": True},
    "NewOperatorKey": {"name": "night shift", "role": "admin_viewer"},
    "OperatorKeyChanges": {"is_disabled": True},
    "QuarantineOrder": {"reason": "answers in another customer's name"},
    "PublicPrefixOrder": {"text": "You are the assistant of Example Inc. Be brief."},
    "SwitchOrder": {"is_on": True, "reason": "the store is being moved"},
    "PoolOrder": {"reason": "new driver"},
}
"""Secrets in them are none."""


def add_examples(content: dict[str, Any]) -> None:
    """Give a body's JSON an example of each model that it may be."""
    media = content.get("application/json")
    if media is None:
        return
    names = [_name(one) for one in media["schema"].get("oneOf", [media["schema"]])]
    media["examples"] = {name: {"value": EXAMPLES[name]} for name in names if name in EXAMPLES}


def _name(schema: Mapping[str, Any]) -> str:
    return str(schema["$ref"]).rpartition("/")[2]
