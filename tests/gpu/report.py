"""What a run has found so far: JSON lines, failures counted, and an end before the deadline."""

import json
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Report:
    """`deadline_seconds` from now no case is begun any more; what is left out is said."""

    deadline_seconds: float
    passed: int = 0
    failed: int = 0
    skipped: list[str] = field(default_factory=list)
    _begun_at: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._begun_at

    def say(self, **values: Any) -> None:
        sys.stdout.write(json.dumps(values) + "\n")
        sys.stdout.flush()

    def run(self, name: str, case: Callable[[], dict[str, Any]]) -> None:
        """One case; what it returns is printed, what it raises makes the whole run fail."""
        if self.seconds > self.deadline_seconds:
            self.skip(name, "no time left")
            return
        begun_at = time.monotonic()
        try:
            values = case()
        except Exception as error:  # every case is tried, whatever the one before did
            self.failed += 1
            traceback.print_exc()
            message = str(error).strip().splitlines() or [""]
            self.say(case=name, passed=False, error=f"{type(error).__name__}: {message[0]}")
            return
        self.passed += 1
        took = round(time.monotonic() - begun_at, 2)
        self.say(case=name, passed=True, **values, seconds=took)

    def skip(self, name: str, why: str) -> None:
        self.skipped.append(name)
        self.say(case=name, skipped=why)

    def end(self) -> int:
        """The process's exit code."""
        self.say(
            passed=self.passed,
            failed=self.failed,
            skipped=len(self.skipped),
            seconds=round(self.seconds, 1),
        )
        return 1 if self.failed else 0
