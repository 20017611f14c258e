"""Who made a change, and to what."""

from __future__ import annotations

import getpass
from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID


class ActorKind(StrEnum):
    KEY = "key"
    PERSON = "person"
    OPERATOR = "operator"
    SYSTEM = "system"


@dataclass(frozen=True, slots=True)
class Actor:
    """Who acts: known from the credential or the process, never from what a request says."""

    kind: ActorKind
    id: UUID | None
    """A key's, a member's or a user's; None where there is none, as for a job."""
    label: str
    """What a person knows the actor by; never a secret."""
    address: str | None = None
    """The client's, where the change came over the network."""
    request_id: str | None = None

    @classmethod
    def command_line(cls) -> Actor:
        """Whoever runs this command on a machine that has the database's password."""
        return cls(ActorKind.OPERATOR, None, f"command line ({_account()})")

    @classmethod
    def system(cls, process: str) -> Actor:
        """The platform itself: `process` says which part of it, as `rollouts` or `retention`."""
        return cls(ActorKind.SYSTEM, None, process)


@dataclass(frozen=True, slots=True)
class Target:
    """What was changed. `kind` is the noun of the API, as `adapter` or `api_key`."""

    kind: str
    id: UUID | str | None = None
    name: str | None = None


def _account() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user id that nobody gave a name
        return "unknown account"
