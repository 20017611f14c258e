"""Prints the API's description: `python -m loraplex.api.openapi > web/openapi.json`."""

import json
import sys

from loraplex.api.gateway import create_app
from loraplex.platform.settings import Settings


def text() -> str:
    """The description as it is kept in the repository, for clients to be generated from."""
    return json.dumps(create_app(Settings()).openapi(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.stdout.write(text())
