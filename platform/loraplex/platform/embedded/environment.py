"""Hands settings to children, through their environment and the file of running services."""

import json
import os

from pydantic import SecretStr

from loraplex.platform.embedded.private_files import write_private
from loraplex.platform.settings import Settings

SERVICES = (
    "database_url",
    "database_migrator_url",
    "database_system_url",
    "database_readonly_url",
    "broker_url",
    "s3_endpoint",
    "s3_region",
    "s3_bucket",
    "s3_access_key_id",
    "s3_secret_access_key",
    "internal_url",
    "internal_port",
)
"""The settings that tell where the services are, for commands started later."""


def child_environment(settings: Settings) -> dict[str, str]:
    """Our environment with every setting of the platform spelled out."""
    inherited = {name: value for name, value in os.environ.items() if _is_not_ours(name)}
    ours = {f"LORAPLEX_{name.upper()}": value for name, value in plain_settings(settings).items()}
    return inherited | ours


def write_services_file(settings: Settings) -> None:
    values = plain_settings(settings)
    known = {name: values[name] for name in SERVICES if name in values}
    write_private(settings.services_file, json.dumps(known, indent=2))


def plain_settings(settings: Settings) -> dict[str, str]:
    """Every setting that has a value, as text, secrets in clear."""
    plain = {}
    for name in type(settings).model_fields:
        value = getattr(settings, name)
        if isinstance(value, SecretStr):
            value = value.get_secret_value()
        if value is not None:
            plain[name] = str(value)
    return plain


def _is_not_ours(name: str) -> bool:
    return not name.startswith("LORAPLEX_")
