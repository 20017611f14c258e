"""How many examples a property test tries: few in `make test`, many in `make soak`."""

import os

SOAK = os.environ.get("LORAPLEX_SOAK") == "1"


def examples(few: int, many: int) -> int:
    return many if SOAK else few
