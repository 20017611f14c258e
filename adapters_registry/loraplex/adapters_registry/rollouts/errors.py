"""Refusals about aliases and rollouts."""

from uuid import UUID

from loraplex.engine.protocol.errors import DomainError, Kind

ALIAS_RULE = (
    "1 to 64 lower-case letters, digits, '.', '_' and '-', beginning with a letter or digit; "
    "not a version's number such as v3, and not latest, which is computed"
)
CONDITION_RULE = 'the alias\'s ETag, such as "3"'


class InvalidAliasName(DomainError):
    """The alias could be mistaken for a version, or is one nobody can move."""

    kind, code = Kind.INVALID, "invalid_alias_name"
    field, rule = "alias", ALIAS_RULE

    def __init__(self, name: str) -> None:
        shown = name[:96]
        super().__init__(f"{shown!r} is no alias that can be set: {ALIAS_RULE}.", value=shown)


class AliasNotFound(DomainError):
    """The adapter has no alias of this name."""

    kind, code, field = Kind.NOT_FOUND, "alias_not_found", "alias"

    def __init__(self, adapter: str, name: str) -> None:
        shown = name[:96]
        super().__init__(f"The adapter {adapter!r} has no alias {shown!r}.", value=shown)


class AliasChanged(DomainError):
    """Somebody moved the alias since the caller looked."""

    kind, code = Kind.STALE, "alias_changed"
    field, rule = "If-Match", CONDITION_RULE

    def __init__(self, name: str, expected: int, generation: int | None) -> None:
        now = "is not set" if generation is None else f"has generation {generation}"
        message = f"The alias {name!r} {now}, not {expected}: it was moved since you read it."
        super().__init__(message, value=expected)


class ConditionMissing(DomainError):
    """An alias that exists is moved only by who says which state of it was seen."""

    kind, code = Kind.UNCONDITIONAL, "if_match_required"
    field, rule = "If-Match", CONDITION_RULE

    def __init__(self, name: str) -> None:
        super().__init__(
            f"The alias {name!r} exists; say in If-Match which generation of it you move."
        )


class VersionNotCallable(DomainError):
    """A name may only be pointed at a version that can be called."""

    kind, code = Kind.CONFLICT, "version_not_callable"
    field, rule = "version", "a version that is ready"

    def __init__(self, number: int, why: str) -> None:
        super().__init__(f"Version {number} cannot be called: it {why}.", value=number)


class NothingToRollBack(DomainError):
    """The alias pointed at nothing before its last move."""

    kind, code = Kind.CONFLICT, "nothing_to_roll_back"
    field, rule = "alias", "an alias that was moved from one version to another"

    def __init__(self, name: str) -> None:
        super().__init__(f"The alias {name!r} was not set before its last move.", value=name)


class RolloutOpen(DomainError):
    """A rollout holds the alias; it ends by promotion or roll-back first."""

    kind, code = Kind.CONFLICT, "rollout_open"
    field, rule = "alias", "an alias without an open rollout"

    def __init__(self, alias: str, rollout_id: UUID) -> None:
        super().__init__(
            f"The alias {alias!r} is being rolled out; promote or roll back {rollout_id} first.",
            value=str(rollout_id),
        )


class RolloutNotFound(DomainError):
    """The adapter has no rollout of this id."""

    kind, code, field = Kind.NOT_FOUND, "rollout_not_found", "rollout_id"

    def __init__(self, adapter: str, rollout_id: UUID) -> None:
        message = f"The adapter {adapter!r} has no rollout {rollout_id}."
        super().__init__(message, value=str(rollout_id))


class RolloutEnded(DomainError):
    """The rollout has ended another way; what ended stays as it is."""

    kind, code = Kind.CONFLICT, "rollout_ended"
    field, rule = "rollout_id", "a rollout that is running or paused"

    def __init__(self, rollout_id: UUID, status: str) -> None:
        message = f"The rollout {rollout_id} has ended: it was {status.replace('_', ' ')}."
        super().__init__(message, value=status)


class SameVersion(DomainError):
    """A rollout needs two versions."""

    kind, code = Kind.CONFLICT, "same_version"
    field, rule = "version", "another version than the alias points at"

    def __init__(self, alias: str, number: int) -> None:
        super().__init__(f"The alias {alias!r} points at version {number} already.", value=number)
