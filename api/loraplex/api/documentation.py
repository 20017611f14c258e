"""What /openapi.json says beyond signatures: bodies that routes read themselves, answers."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from loraplex.api.admin.price_schemas import NewPrice
from loraplex.api.admin.public_prefix_schemas import PublicPrefixOrder
from loraplex.api.admin.schemas import QuarantineOrder
from loraplex.api.admin.slo_schemas import SloOrder
from loraplex.api.admin.switch_schemas import PoolOrder, SwitchOrder
from loraplex.api.admin.tenant_schemas import (
    DeletionOrder,
    NewOperator,
    NewTenant,
    PersonChange,
    Suspension,
    TenantChange,
)
from loraplex.api.answers import describe_answers
from loraplex.api.examples import add_examples
from loraplex.api.idempotency import PATHS
from loraplex.api.key_schemas import (
    KeyChanges,
    KeyRotation,
    NewKey,
    NewOperatorKey,
    OperatorKeyChanges,
)
from loraplex.api.openai.answer_schemas import ChatChunk, OpenAIError
from loraplex.api.openai.schemas import ChatBody, CompletionBody
from loraplex.api.schemas import Problem
from loraplex.api.tenant.import_schemas import ImportRequest
from loraplex.api.tenant.people_schemas import (
    Acceptance,
    InvitationToken,
    MemberChange,
    NewMember,
    OidcStart,
    PasswordChange,
    PasswordSignIn,
    PlaceChoice,
    SignIn,
)
from loraplex.api.tenant.schemas import AliasTarget, RolloutChange, RolloutPlan
from loraplex.api.tenant.upload_schemas import NewUpload, NoFields, PartUrlsWanted
from loraplex.api.tenant.webhook_schemas import NewWebhook, Rotation, WebhookChanges
from loraplex.platform.idempotency.errors import HEADER, MAX_KEY_CHARACTERS

REFERENCE = "#/components/schemas/{model}"
READ_BY_ROUTES: tuple[type[BaseModel], ...] = (
    ChatBody,
    CompletionBody,
    SignIn,
    NewTenant,
    TenantChange,
    Suspension,
    DeletionOrder,
    NewOperator,
    PersonChange,
    PasswordSignIn,
    OidcStart,
    PlaceChoice,
    PasswordChange,
    InvitationToken,
    Acceptance,
    NewMember,
    MemberChange,
    AliasTarget,
    RolloutPlan,
    RolloutChange,
    QuarantineOrder,
    SloOrder,
    PublicPrefixOrder,
    SwitchOrder,
    PoolOrder,
    NewPrice,
    NewUpload,
    PartUrlsWanted,
    NoFields,
    ImportRequest,
    NewWebhook,
    WebhookChanges,
    Rotation,
    NewKey,
    KeyChanges,
    KeyRotation,
    NewOperatorKey,
    OperatorKeyChanges,
)
WRITTEN_BY_ROUTES: tuple[type[BaseModel], ...] = (ChatChunk, OpenAIError, Problem)

PROBLEM: dict[int | str, dict[str, Any]] = {
    "default": {
        "description": "Refused.",
        "content": {
            "application/problem+json": {"schema": {"$ref": REFERENCE.format(model="Problem")}}
        },
    }
}
IDEMPOTENCY_KEY = {
    "name": HEADER,
    "in": "header",
    "required": False,
    "description": "Sent again with the same request, the same answer comes for 24 hours.",
    "schema": {"type": "string", "minLength": 1, "maxLength": MAX_KEY_CHARACTERS},
}
OPENAI_ERROR: dict[int | str, dict[str, Any]] = {
    "default": {
        "description": "Refused.",
        "content": {
            "application/json": {"schema": {"$ref": REFERENCE.format(model="OpenAIError")}}
        },
    }
}


def json_body(*models: type[BaseModel]) -> dict[str, Any]:
    """The `openapi_extra` of a route that reads its JSON body after it knows the caller.

    Of several models the body is one.
    """
    choices = [{"$ref": REFERENCE.format(model=model.__name__)} for model in models]
    schema = choices[0] if len(choices) == 1 else {"oneOf": choices}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def form_body(*choices: list[str]) -> dict[str, Any]:
    """The `openapi_extra` of a route that reads a multipart form: the files of one choice."""
    schemas = [
        {
            "type": "object",
            "properties": {name: {"type": "string", "format": "binary"} for name in files},
            "required": files,
            "additionalProperties": False,
        }
        for files in choices
    ]
    content = {"multipart/form-data": {"schema": {"oneOf": schemas}}}
    return {"requestBody": {"required": True, "content": content}}


def binary_body() -> dict[str, Any]:
    """The `openapi_extra` of a route that reads its body as it comes, byte for byte."""
    schema = {"type": "string", "format": "binary"}
    content = {"application/octet-stream": {"schema": schema}}
    return {"requestBody": {"required": True, "content": content}}


def streamed(model: type[BaseModel]) -> dict[int | str, dict[str, Any]]:
    """The `responses` of a route that answers with events when the client asks for a stream.

    The schema is that of each event, as readers of OpenAPI 3.1 take it. What goes wrong in the
    middle comes as an error's event; the last one is no JSON.
    """
    chunk: dict[str, Any] = {
        "type": "string",
        "contentMediaType": "application/json",
        "contentSchema": {
            "anyOf": [
                {"$ref": REFERENCE.format(model=one.__name__)} for one in (model, OpenAIError)
            ]
        },
    }
    schema = {
        "type": "object",
        "properties": {"data": {"anyOf": [{"const": "[DONE]"}, chunk]}},
        "required": ["data"],
    }
    content = {"text/event-stream": {"schema": schema}}
    return {200: {"description": "The answer, or a stream of its chunks.", "content": content}}


def document(app: FastAPI) -> None:
    """Make `app` describe itself whole."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _describe(app)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def _describe(app: FastAPI) -> dict[str, Any]:
    description = get_openapi(
        title=app.title, version=app.version, description=app.description, routes=app.routes
    )
    _, read = models_json_schema(
        [(model, "validation") for model in READ_BY_ROUTES], ref_template=REFERENCE
    )
    _, written = models_json_schema(
        [(model, "serialization") for model in WRITTEN_BY_ROUTES], ref_template=REFERENCE
    )
    schemas = description.setdefault("components", {}).setdefault("schemas", {})
    # FastAPI's own refusal is never sent: ours stand in `answers`.
    for unsent in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unsent, None)
    for path, operations in description["paths"].items():
        for method, operation in operations.items():
            operation["responses"].pop("422", None)
            add_examples(operation.get("requestBody", {}).get("content", {}))
            is_tenants = not {"session", "admin"} & set(operation["tags"])
            if method == "post" and path.startswith(PATHS) and is_tenants:
                operation.setdefault("parameters", []).append(IDEMPOTENCY_KEY)
    for name, schema in sorted((read["$defs"] | written["$defs"]).items()):
        schemas.setdefault(name, schema)
    describe_answers(description)
    return description
