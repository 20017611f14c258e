"""A person's signed-in browsers: seen, and ended, by the person alone."""

from uuid import UUID

from fastapi import APIRouter

from loraplex.api.documentation import PROBLEM
from loraplex.api.people import PersonDep
from loraplex.api.services import ServicesDep
from loraplex.api.tenant.people_schemas import OwnSession, OwnSessionList

router = APIRouter(prefix="/api/v1/sessions", tags=["session"], responses=PROBLEM)


@router.get("", operation_id="listOwnSessions")
async def list_own_sessions(services: ServicesDep, session: PersonDep) -> OwnSessionList:
    """The person's sessions, newest first."""
    return OwnSessionList(
        data=[
            OwnSession(
                id=str(one.session_id),
                tenant=one.tenant_name,
                method="password" if one.method == "password" else "identity_provider",
                address=one.address,
                user_agent=one.user_agent,
                created_at=one.created_at,
                expires_at=one.expires_at,
                is_current=one.is_current,
            )
            for one in await services.people.list_own(session.token)
        ]
    )


@router.delete("", operation_id="endOtherSessions", status_code=204)
async def end_other_sessions(services: ServicesDep, session: PersonDep) -> None:
    """End every session of the person but the one that asks."""
    await services.people.end_own(session.token, None)


@router.delete("/{session_id}", operation_id="endSession", status_code=204)
async def end_session(session_id: UUID, services: ServicesDep, session: PersonDep) -> None:
    """End one of the person's sessions."""
    await services.people.end_own(session.token, session_id)
