"""The functions in Postgres through which a gateway reaches people.

They belong to role `system`; `app` may only execute them (see the migration of their functions).
"""

from collections.abc import Sequence

from sqlalchemy import ARRAY, LargeBinary, RowMapping, TextClause, bindparam, text
from sqlalchemy.ext.asyncio import AsyncSession

from loraplex.platform.people.signed_in import SignedInPerson

Hashes = Sequence[bytes]


def _taking(statement: str, *hashes: str) -> TextClause:
    arrays = (bindparam(name, type_=ARRAY(LargeBinary)) for name in hashes)
    return text(f"SELECT * FROM gateway.{statement}").bindparams(*arrays)  # noqa: S608 - ours


FIND_ACCOUNT = _taking("find_account(:email)")
OPEN_SESSION = _taking(
    "open_person_session(:user_id, :checked_hash, :token_hash, :lifetime, :address, :user_agent)"
)
REHASH_PASSWORD = _taking("rehash_password(:user_id, :checked_hash, :new_hash)")
CHANGE_PASSWORD = _taking("change_password(:user_id, :checked_hash, :new_hash)")
FIND_SESSION = _taking("find_person_session(:hashes)", "hashes")
CLOSE_SESSION = _taking("close_person_session(:hashes)", "hashes")
PLACES = _taking("places_of_person(:hashes)", "hashes")
CHOOSE_PLACE = _taking("choose_place(:hashes, :tenant)", "hashes")
LIST_SESSIONS = _taking("list_person_sessions(:hashes)", "hashes")
END_SESSIONS = _taking("end_person_sessions(:hashes, :session_id)", "hashes")
FIND_INVITATION = _taking("find_invitation(:hashes)", "hashes")
ACCEPT_INVITATION = _taking(
    "accept_invitation(:hashes, :checked_hash, :session_hashes, :new_hash, :display_name,"
    " :token_hash, :lifetime, :address, :user_agent)",
    "hashes",
    "session_hashes",
)
SIGN_IN_BY_IDENTITY = _taking(
    "sign_in_by_identity(:issuer, :subject, :email, :display_name, :operator_role, :tenants,"
    " :roles, :invitation_hashes, :token_hash, :lifetime, :address, :user_agent)",
    "invitation_hashes",
)


async def one(session: AsyncSession, statement: TextClause, **values: object) -> RowMapping | None:
    """The row that a function gives, if it gives one."""
    return (await session.execute(statement, values)).mappings().one_or_none()


async def every(
    session: AsyncSession, statement: TextClause, **values: object
) -> Sequence[RowMapping]:
    """All rows that a function gives."""
    return (await session.execute(statement, values)).mappings().all()


async def find_session(session: AsyncSession, hashes: Hashes) -> SignedInPerson | None:
    """Whose live session has one of these token hashes."""
    row = await one(session, FIND_SESSION, hashes=hashes)
    return None if row is None else SignedInPerson.of(row)
