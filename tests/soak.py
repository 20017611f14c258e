"""How much a test does: a little in `make test`, and all of it in `make soak`."""

import os
from typing import Final

SOAK: Final = os.environ.get("LORAPLEX_SOAK") == "1"
SOAK_SECONDS: Final = 7200.0
"""What any one test may take in `make soak`, whatever it may in `make test`."""


def examples(few: int, many: int) -> int:
    """How many examples a property test tries, or things a load test does."""
    return many if SOAK else few
