"""The gateway's application: its routes, and the services they share from start to stop."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.metadata import version

from fastapi import FastAPI

from loraplex.adapters_registry.uploads.files import part_bytes_of
from loraplex.api import documentation, errors, health, web
from loraplex.api.admin import audit as admin_audit
from loraplex.api.admin import (
    exports,
    operator_keys,
    prices,
    public_prefixes,
    quarantine,
    switches,
    tenant_keys,
    tenant_usage,
    tenants,
    workers,
)
from loraplex.api.admin import limits as admin_limits
from loraplex.api.admin import members as tenants_members
from loraplex.api.admin import models as admin_models
from loraplex.api.admin import people as admin_people
from loraplex.api.admin import slo_classes as slo_routes
from loraplex.api.connecting import connect
from loraplex.api.draining import Draining
from loraplex.api.edge import Edge
from loraplex.api.halting import HaltedTenants
from loraplex.api.health import ReadinessCheck
from loraplex.api.idempotency import KeyedRequests
from loraplex.api.metrics import Metrics
from loraplex.api.openai import chat, completions, models
from loraplex.api.read_only import ReadOnlyGuard
from loraplex.api.tenant import (
    adapters,
    aliases,
    audit,
    caller,
    imports,
    invitations,
    keys,
    limits,
    members,
    oidc,
    own_sessions,
    pins,
    rollouts,
    session,
    storage,
    uploads,
    usage,
    webhooks,
)
from loraplex.engine.protocol.tracing import start_tracing
from loraplex.platform.database.migrate import expected_revision
from loraplex.platform.settings import Settings

DESCRIPTION = """\
Serves many tenants' LoRA adapters from one base model. Under `/v1` it speaks OpenAI's API; under
`/api/v1` tenants manage adapters and operators watch the fleet. Send a key as
`Authorization: Bearer <key>`.\
"""
ROUTES = (
    models,
    chat,
    completions,
    session,
    caller,
    keys,
    oidc,
    own_sessions,
    members,
    invitations,
    adapters,
    aliases,
    rollouts,
    pins,
    uploads,
    imports,
    storage,
    webhooks,
    usage,
    limits,
    operator_keys,
    audit,
    workers,
    tenants,
    admin_limits,
    tenant_keys,
    tenant_usage,
    prices,
    tenants_members,
    exports,
    admin_people,
    quarantine,
    switches,
    admin_audit,
    slo_routes,
    public_prefixes,
    admin_models,
    health,
)
"""Modules with a router, in the order of the API's description."""
FLUSH_SECONDS = 3.0


def create_app(settings: Settings) -> FastAPI:
    """The application. It connects to nothing before its lifespan begins."""
    metrics = Metrics()
    app = FastAPI(
        title="Loraplex",
        version=version("loraplex"),
        description=DESCRIPTION,
        lifespan=_lifespan,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.settings = settings
    app.state.metrics = metrics
    app.state.draining = Draining(metrics.running_calls)
    app.state.tracing = tracing = start_tracing("gateway", os.environ)
    errors.install(app)
    for module in ROUTES:
        app.include_router(module.router)
    app.include_router(invitations.anybodys)
    documentation.document(app)
    web.mount(app)
    app.add_middleware(KeyedRequests)
    app.add_middleware(ReadOnlyGuard)
    app.add_middleware(
        Edge,
        metrics=metrics,
        tracing=tracing,
        max_upload_bytes=settings.max_upload_bytes,
        max_part_bytes=part_bytes_of(settings.max_upload_bytes, settings.upload_part_bytes),
        store_origin=settings.s3_public_endpoint,
    )
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Connect; at the end settle what is left, then disconnect."""
    settings: Settings = app.state.settings
    async with AsyncExitStack() as stack:
        services = await connect(app, settings, stack)
        app.state.services = services
        app.state.readiness = ReadinessCheck(expected_revision())
        background = [
            asyncio.create_task(services.changes.listen()),
            asyncio.create_task(services.authenticator.uses.keep_recording()),
            asyncio.create_task(services.switches.keep_current()),
            asyncio.create_task(services.slo_choices.keep_current()),
            asyncio.create_task(services.admission.keep_renewing()),
            asyncio.create_task(services.recovery.keep_recovering()),
            asyncio.create_task(services.declared_prefixes.keep_current()),
            asyncio.create_task(HaltedTenants(services.database, services.draining).keep_ending()),
        ]
        try:
            yield
        finally:
            services.draining.begin()
            services.draining.abort_running()
            await services.settlements.flush(FLUSH_SECONDS)
            for task in background:
                task.cancel()
            await asyncio.gather(*background, return_exceptions=True)
            await asyncio.to_thread(app.state.tracing.close)
