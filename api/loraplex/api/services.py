"""What the routes of one gateway share; made at start-up, reached through the request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from fastapi import Depends, Request

if TYPE_CHECKING:
    from loraplex.adapters_registry.imports.service import Imports
    from loraplex.adapters_registry.objects import ObjectStore
    from loraplex.adapters_registry.uploads.resumable import ResumableUploads
    from loraplex.adapters_registry.uploads.service import Uploads
    from loraplex.adapters_registry.versions.service import Catalogue
    from loraplex.api.declared_prefixes import DeclaredPrefixes
    from loraplex.api.draining import Draining
    from loraplex.api.metrics import Metrics
    from loraplex.api.openai.adapter_refs import AdapterRefs
    from loraplex.api.openai.observation import CallObservation
    from loraplex.api.settlement import Settlements
    from loraplex.api.text.base_text import BaseText
    from loraplex.api.text.public_prefixes import PublicPrefixes
    from loraplex.engine.protocol.module_table import ModuleTable
    from loraplex.engine.protocol.tracing import Tracing
    from loraplex.platform.admission.recovery import Recovery
    from loraplex.platform.admission.service import Admission
    from loraplex.platform.database.changes import Changes
    from loraplex.platform.database.sessions import Database
    from loraplex.platform.idempotency.service import Idempotency
    from loraplex.platform.metering.price_book import PriceBook
    from loraplex.platform.people.accepting import Accepting
    from loraplex.platform.people.administration import PeopleAdministration
    from loraplex.platform.people.invitations import Invitations
    from loraplex.platform.people.oidc.logins import OidcLogins
    from loraplex.platform.people.sessions import PeopleSessions
    from loraplex.platform.pools.fleet import WorkerFleet
    from loraplex.platform.settings import Settings
    from loraplex.platform.slo.choices import SloChoices
    from loraplex.platform.slo.classes import SloClasses
    from loraplex.platform.switches.cache import Switches
    from loraplex.platform.tenancy.service import Authenticator, TenantAdministration
    from loraplex.platform.webhooks.endpoints import Webhooks


@dataclass(frozen=True, slots=True)
class Services:
    """One gateway's connections to the rest of the house."""

    gateway_id: str
    settings: Settings
    database: Database
    system: Database | None
    """Role `system`, for operators' routes alone; None where this gateway was given no URL."""
    changes: Changes
    switches: Switches
    objects: ObjectStore
    uploads: Uploads
    resumable: ResumableUploads
    imports: Imports
    webhooks: Webhooks
    idempotency: Idempotency
    tenants: TenantAdministration
    authenticator: Authenticator
    people: PeopleSessions
    accepting: Accepting
    oidc: OidcLogins | None
    invitations: Invitations
    people_administration: PeopleAdministration
    admission: Admission
    recovery: Recovery
    prices: PriceBook
    catalogue: Catalogue
    fleet: WorkerFleet
    adapter_refs: AdapterRefs
    table: ModuleTable
    text: BaseText
    public_prefixes: PublicPrefixes
    declared_prefixes: DeclaredPrefixes
    metrics: Metrics
    tracing: Tracing
    observation: CallObservation
    slo_classes: SloClasses
    slo_choices: SloChoices
    settlements: Settlements
    draining: Draining


async def services_of(request: Request) -> Services:
    """A coroutine, because FastAPI runs plain functions in a thread: a switch to and fro."""
    services: Services = request.app.state.services
    return services


ServicesDep = Annotated[Services, Depends(services_of)]
