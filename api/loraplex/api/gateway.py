"""The gateway's application: its routes, and the services they share from start to stop."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from importlib.metadata import version
from uuid import uuid4

import structlog
from fastapi import FastAPI
from pydantic import SecretStr

from loraplex.adapters_registry.imports.service import Imports
from loraplex.adapters_registry.objects import ObjectStore
from loraplex.adapters_registry.uploads.files import part_bytes_of
from loraplex.adapters_registry.uploads.resumable import ResumableUploads
from loraplex.adapters_registry.uploads.service import Uploads
from loraplex.adapters_registry.versions.service import Catalogue
from loraplex.api import documentation, errors, health, web
from loraplex.api.admin import audit as admin_audit
from loraplex.api.admin import (
    exports,
    operator_keys,
    prices,
    quarantine,
    switches,
    tenant_keys,
    tenant_usage,
    tenants,
    workers,
)
from loraplex.api.admin import limits as admin_limits
from loraplex.api.admin import members as tenants_members
from loraplex.api.admin import people as admin_people
from loraplex.api.admin import slo_classes as slo_routes
from loraplex.api.draining import Draining
from loraplex.api.edge import Edge
from loraplex.api.halting import HaltedTenants
from loraplex.api.health import ReadinessCheck
from loraplex.api.idempotency import KeyedRequests
from loraplex.api.metrics import Metrics
from loraplex.api.openai import chat, completions, models
from loraplex.api.openai.adapter_refs import AdapterRefs
from loraplex.api.openai.observation import CallObservation
from loraplex.api.read_only import ReadOnlyGuard
from loraplex.api.series.tenants import TenantLabels
from loraplex.api.services import Services
from loraplex.api.settlement import Settlements
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
from loraplex.api.text.base_text import BaseText
from loraplex.api.text.public_prefixes import PublicPrefixes
from loraplex.engine.protocol.describe import load_or_describe, locate_model
from loraplex.engine.protocol.tracing import start_tracing
from loraplex.platform.admission.recovery import Recovery
from loraplex.platform.admission.service import Admission
from loraplex.platform.database.changes import MAX_CACHE_SECONDS, Changes
from loraplex.platform.database.migrate import expected_revision
from loraplex.platform.database.sessions import Database
from loraplex.platform.idempotency.service import Idempotency
from loraplex.platform.metering.price_book import PriceBook
from loraplex.platform.outbound.rules import OutboundRules
from loraplex.platform.people.accepting import Accepting
from loraplex.platform.people.administration import PeopleAdministration
from loraplex.platform.people.invitations import Invitations
from loraplex.platform.people.oidc.logins import OidcLogins
from loraplex.platform.people.passwords import Passwords
from loraplex.platform.people.sessions import PeopleSessions
from loraplex.platform.pools.fleet import WorkerFleet
from loraplex.platform.public_prefixes import read_public_prefixes
from loraplex.platform.secrets import SecretKeys
from loraplex.platform.settings import Settings
from loraplex.platform.slo.choices import SloChoices, busiest_tenants
from loraplex.platform.slo.classes import SloClasses
from loraplex.platform.switches.cache import Switches
from loraplex.platform.tenancy.service import Authenticator, TenantAdministration
from loraplex.platform.webhooks.endpoints import Webhooks

log = structlog.get_logger(__name__)

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
    health,
)
"""Modules with a router, in the order of the API's description."""
DATABASE_CONNECTIONS = 10
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
    app.state.draining = Draining()
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
        services = await _connect(app, settings, stack)
        app.state.services = services
        app.state.readiness = ReadinessCheck(expected_revision())
        background = [
            asyncio.create_task(services.changes.listen()),
            asyncio.create_task(services.authenticator.uses.keep_recording()),
            asyncio.create_task(services.switches.keep_current()),
            asyncio.create_task(services.slo_choices.keep_current()),
            asyncio.create_task(services.admission.keep_renewing()),
            asyncio.create_task(services.recovery.keep_recovering()),
            asyncio.create_task(services.public_prefixes.keep_current()),
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


async def _connect(app: FastAPI, settings: Settings, stack: AsyncExitStack) -> Services:
    gateway_id = uuid4().hex
    secrets = SecretKeys.from_settings(settings)
    model_dir = locate_model(settings.model, settings.models_dir)
    table = await asyncio.to_thread(load_or_describe, model_dir, None, settings.run_dir)
    text = await asyncio.to_thread(BaseText.load, model_dir)
    declared = await asyncio.to_thread(read_public_prefixes, settings.public_prefixes_dir)
    public_prefixes = await asyncio.to_thread(PublicPrefixes, declared, text)
    for name, tokens in public_prefixes.tokens.items():
        log.info("public_prefix", name=name, tokens=len(tokens))
    database = Database(_required(settings, "database_url"), pool_size=DATABASE_CONNECTIONS)
    stack.push_async_callback(database.dispose)
    system = None
    if settings.database_system_url is not None:
        system = Database(settings.database_system_url.get_secret_value(), pool_size=1)
        stack.push_async_callback(system.dispose)
    objects = ObjectStore.from_settings(settings)
    changes, switches = Changes(database), Switches(database)
    switches.watch(changes)
    await switches.read()
    fleet = WorkerFleet(
        database,
        secrets,
        gateway_id,
        switches.is_drained,
        max_worker_requests=settings.max_worker_requests,
    )
    await fleet.start()
    stack.push_async_callback(fleet.stop)
    uploads = Uploads(database, objects, table.base_name, settings.max_upload_bytes)
    lease = timedelta(seconds=settings.reservation_lease_seconds)
    admission = Admission(database, gateway_id, lease)
    metrics: Metrics = app.state.metrics
    price_book = PriceBook(database)
    changes.watch("prices", price_book.forget)
    slo_classes = SloClasses.parse(settings.slo_classes, settings.slo_default_class)
    metrics.calls.tell_objectives(slo_classes)
    tenant_labels = TenantLabels(settings.metrics_tenants)
    passwords = await asyncio.to_thread(Passwords)
    people = PeopleSessions(database, secrets, passwords)
    invites = Invitations(secrets)
    tenant_labels.prefer(await busiest_tenants(database, settings.metrics_tenants))
    slo_choices = SloChoices(database, slo_classes)
    slo_choices.watch(changes)
    return Services(
        gateway_id=gateway_id,
        settings=settings,
        database=database,
        system=system,
        changes=changes,
        switches=switches,
        objects=objects,
        uploads=uploads,
        resumable=ResumableUploads.from_settings(database, uploads, settings),
        imports=Imports(uploads, secrets, OutboundRules.from_settings(settings)),
        idempotency=Idempotency(database, secrets),
        webhooks=Webhooks(secrets, OutboundRules.from_settings(settings)),
        tenants=TenantAdministration(secrets),
        people=people,
        accepting=Accepting(database, invites, people, passwords),
        oidc=OidcLogins.from_settings(settings, database, secrets, people),
        invitations=invites,
        people_administration=PeopleAdministration(invites),
        authenticator=Authenticator(database, secrets, changes=changes),
        admission=admission,
        recovery=Recovery(
            database,
            admission,
            fleet,
            table.base_name,
            lease=lease,
            lost_after=timedelta(seconds=settings.recovery_lost_seconds),
        ),
        prices=price_book,
        catalogue=Catalogue([table.base_name], base_seconds=MAX_CACHE_SECONDS),
        fleet=fleet,
        adapter_refs=AdapterRefs(objects, fleet),
        table=table,
        text=text,
        public_prefixes=public_prefixes,
        metrics=metrics,
        tracing=app.state.tracing,
        observation=CallObservation(metrics.calls, tenant_labels, slo_choices.class_of),
        slo_classes=slo_classes,
        slo_choices=slo_choices,
        settlements=Settlements(admission, metrics),
        draining=app.state.draining,
    )


def _required(settings: Settings, name: str) -> str:
    value: SecretStr | None = getattr(settings, name)
    if value is None:
        raise RuntimeError(f"LORAPLEX_{name.upper()} is not set and no `loraplex serve` runs here")
    return value.get_secret_value()
