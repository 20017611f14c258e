"""Puts what lies outside the packages into the wheel, and refuses to build one without it."""

from pathlib import Path
from typing import Any

from hatchling.builders.config import BuilderConfig
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

DEMO_ADAPTERS = ("bullets", "json", "pirate", "shout")


class WheelContents(BuildHookInterface[BuilderConfig]):
    """An editable install reads all of it from the checkout, so only a real wheel has copies."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version != "standard":
            return
        root = Path(self.root)
        web = root / "web" / "dist"
        if not (web / "index.html").is_file():
            raise FileNotFoundError(
                "web/dist/index.html is missing: run `make web` before building a wheel"
            )
        adapters = root / "tests" / "fixtures" / "adapters"
        included = {root / "migrations": "loraplex/platform/migrations", web: "loraplex/api/web"}
        for name in DEMO_ADAPTERS:
            included[adapters / name] = f"loraplex/adapters_registry/demo_adapters/{name}"
        for source, target in included.items():
            if not source.is_dir():
                raise FileNotFoundError(f"{source} is missing, and a wheel needs it")
            build_data["force_include"][str(source)] = target
