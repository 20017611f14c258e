"""Puts the migrations and the web build into the wheel, and refuses to build one without them."""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class WheelContents(BuildHookInterface):
    """An editable install reads both from the checkout, so only a real wheel carries copies."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version != "standard":
            return
        root = Path(self.root)
        web = root / "web" / "dist"
        if not (web / "index.html").is_file():
            raise FileNotFoundError(
                "web/dist/index.html is missing: run `make web` before building a wheel"
            )
        build_data["force_include"] |= {
            str(root / "migrations"): "loraplex/platform/migrations",
            str(web): "loraplex/api/web",
        }
