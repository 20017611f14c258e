"""Which module a PEFT configuration speaks of, by PEFT's own matching rules."""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Generic, TypeVar

Value = TypeVar("Value", int, float)

ALL_LINEAR = "all-linear"


class PatternValues(Generic[Value]):
    """Values by pattern of module path: the first pattern that matches a path's end wins.

    Raises re.error when a pattern is not a regular expression.
    """

    def __init__(self, patterns: Mapping[str, Value]) -> None:
        self.values: list[tuple[re.Pattern[str], Value]] = [
            (re.compile(rf"(.*\.)?({pattern})$"), value) for pattern, value in patterns.items()
        ]

    def of(self, path: str, default: Value) -> Value:
        return next((value for pattern, value in self.values if pattern.match(path)), default)


def is_named(names: Sequence[str] | str, path: str) -> bool:
    """A regular expression must match the whole path; a list names paths or their last parts."""
    if isinstance(names, str):
        return re.fullmatch(names, path) is not None
    return path in names or any(path.endswith(f".{name}") for name in names)


def layer_of(path: str, layers_pattern: Sequence[str]) -> int | None:
    """The index of the layer a path lies in, by `layers_pattern` or the first numbered part."""
    if not layers_pattern:
        match = re.match(r".*?\.[^.]*\.(?P<idx>\d+)\.", path)
        return int(match["idx"]) if match else None
    for pattern in layers_pattern:
        if match := re.match(rf"(?:^|.*?\.){pattern}\.(?P<idx>\d+)\.", path):
            return int(match["idx"])
    return None


def targeted(
    paths: Collection[str],
    *,
    target_modules: Sequence[str] | str,
    exclude_modules: Sequence[str] | str,
    layers_to_transform: Sequence[int],
    layers_pattern: Sequence[str],
) -> set[str]:
    """The linears PEFT would adapt, of those at `paths`. Raises re.error on a bad pattern."""
    if isinstance(target_modules, str) and target_modules.lower() == ALL_LINEAR:
        target_modules = tuple(paths)
    names = target_modules

    def is_targeted(path: str) -> bool:
        if exclude_modules and is_named(exclude_modules, path):
            return False
        if not isinstance(names, str) and path in names:
            return True  # a full path is taken whatever its layer
        return is_named(names, path) and (
            not layers_to_transform or layer_of(path, layers_pattern) in layers_to_transform
        )

    return {path for path in paths if is_targeted(path)}
