"""Makes what a gateway's routes share: opened in order, and closed with the stack."""

import asyncio
from contextlib import AsyncExitStack
from datetime import timedelta
from uuid import uuid4

from fastapi import FastAPI
from pydantic import SecretStr

from loraplex.adapters_registry.imports.service import Imports
from loraplex.adapters_registry.objects import ObjectStore
from loraplex.adapters_registry.uploads.resumable import ResumableUploads
from loraplex.adapters_registry.uploads.service import Uploads
from loraplex.adapters_registry.versions.service import Catalogue
from loraplex.api.declared_prefixes import DeclaredPrefixes
from loraplex.api.metrics import Metrics
from loraplex.api.openai.adapter_refs import AdapterRefs
from loraplex.api.openai.observation import CallObservation
from loraplex.api.series.tenants import TenantLabels
from loraplex.api.services import Services
from loraplex.api.settlement import Settlements
from loraplex.api.text.base_text import BaseText
from loraplex.api.text.public_prefixes import PublicPrefixes
from loraplex.engine.protocol.describe import load_or_describe, locate_model
from loraplex.platform.admission.recovery import Recovery
from loraplex.platform.admission.service import Admission
from loraplex.platform.database.changes import MAX_CACHE_SECONDS, Changes
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
from loraplex.platform.secrets import SecretKeys
from loraplex.platform.settings import Settings
from loraplex.platform.slo.choices import SloChoices, busiest_tenants
from loraplex.platform.slo.classes import SloClasses
from loraplex.platform.switches.cache import Switches
from loraplex.platform.tenancy.service import Authenticator, TenantAdministration
from loraplex.platform.webhooks.endpoints import Webhooks

DATABASE_CONNECTIONS = 10


async def connect(app: FastAPI, settings: Settings, stack: AsyncExitStack) -> Services:
    """A gateway's services; what has to be disconnected again is pushed on `stack`."""
    gateway_id = uuid4().hex
    secrets = SecretKeys.from_settings(settings)
    model_dir = locate_model(settings.model, settings.models_dir)
    table = await asyncio.to_thread(load_or_describe, model_dir, None, settings.run_dir)
    text = await asyncio.to_thread(BaseText.load, model_dir)
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
    public_prefixes = PublicPrefixes(text)
    declared_prefixes = DeclaredPrefixes(database, public_prefixes)
    declared_prefixes.watch(changes)
    await declared_prefixes.read()
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
        declared_prefixes=declared_prefixes,
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
