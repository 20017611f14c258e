"""Every setting of the platform in one typed class, read from LORAPLEX_* and the data directory.

A running `loraplex serve` writes the addresses and passwords of its embedded services to
`<data dir>/run/services.json` (mode 0600), so that commands started later in the same directory
find them; the environment always wins over that file.
"""

import json
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, SecretStr
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from loraplex.engine.protocol.errors import DomainError, Kind


class MissingSetting(DomainError):
    """A setting that this command cannot do without is not set."""

    kind, code = Kind.INVALID, "missing_setting"
    rule = "set"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"{name} is not set, and no running `loraplex serve` on this data directory tells it.",
            field=name,
        )


class Settings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="LORAPLEX_", extra="ignore")

    data_dir: Path = Path(".loraplex")
    host: str = "127.0.0.1"
    port: int = Field(default=8000, ge=1, le=65535)
    public_url: str | None = Field(default=None, pattern=r"^https?://[^/\s]+$")
    """Where browsers reach the gateways, as `https://loraplex.example`: for links in invitations
    and what an identity provider sends people back to. The address that was asked when unset."""
    oidc_issuer: str | None = Field(default=None, pattern=r"^https?://\S+$")
    """An OpenID Connect provider that people may sign in through, as its own description spells
    it; `LORAPLEX_OIDC_CLIENT_ID` is needed with it."""
    oidc_client_id: str | None = None
    oidc_client_secret: SecretStr | None = None
    oidc_name: str = "Single sign-on"
    """What the sign-in page calls the provider."""
    oidc_scopes: str = "openid email profile"
    oidc_groups_claim: str = "groups"
    """The claim that lists a person's groups."""
    oidc_group_roles: str | None = None
    """JSON of groups to what they give: `{"staff": "admin", "acme-dev": "acme/developer"}`."""
    trusted_proxies: str | None = None
    """Comma-separated addresses whose X-Forwarded-For and -Proto count; nobody's by default."""
    secret_key: SecretStr | None = None
    """Comma-separated keys: the first signs, all verify. Made in the data directory when unset."""
    demo: bool = True
    ready_file: Path | None = None
    """A file without which a gateway is not ready; `loraplex serve` makes it after the demo."""
    workers: int = Field(default=1, ge=1, le=64)
    gateways: int = Field(default=1, ge=1, le=64)

    model: str = "smollm2-135m-instruct"
    """A name under `<data dir>/models`, or the path of a Hugging Face directory."""
    device: str = "auto"
    pool_bytes: int = 1536 * 1024 * 1024
    max_step_tokens: int = 512
    max_running_requests: int = 64
    max_worker_requests: int = Field(default=1024, ge=1)
    """How many requests one worker may have, running and waiting, before gateways answer new ones
    with 503."""
    max_model_tokens: int | None = None
    adapter_cache_bytes: int = 4 * 1024 * 1024 * 1024
    """Of the disk, for adapter files; the workers of a machine share them."""
    host_cache_bytes: int = Field(default=512 * 1024 * 1024, ge=0)
    """Of a worker's memory, for packed adapters on their way to the pool and back; pinned on CUDA,
    where torch rounds it up to a power of two."""

    log_format: Literal["auto", "json", "text"] = "auto"
    """`auto` is JSON unless a person looks on: standard error is a terminal."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    slo_classes: str = (
        "interactive:priority=interactive,ttft=1s,tpot=100ms;"
        "standard:ttft=5s,tpot=250ms;batch:priority=batch"
    )
    """Classes of service and their objectives, `NAME:OBJECTIVES;…`; an objective is a limit of
    `ttft`, `tpot` or `e2e` in ms or s."""
    slo_default_class: str = "standard"
    """The class of tenants and keys that an operator has given none."""
    metrics_tenants: int = Field(default=20, ge=0, le=200)
    """How many tenants have a label of their own in a gateway's metrics; the others are `other`."""

    jobs_metrics_port: int | None = Field(default=None, ge=1, le=65535)
    """Where `loraplex jobs` tells metrics by itself. Where gateways share its data directory they
    tell for it, and one of them alone should be read."""
    jobs_metrics_host: str = "127.0.0.1"

    database_url: SecretStr | None = None
    database_migrator_url: SecretStr | None = None
    database_system_url: SecretStr | None = None
    database_readonly_url: SecretStr | None = None
    broker_url: SecretStr | None = None
    s3_endpoint: str | None = None
    s3_public_endpoint: str | None = Field(default=None, pattern=r"^https?://[^/\s]+$")
    """The object store's address as clients reach it: parts of uploads then go there directly, by
    signed URLs. Through the gateways when unset."""
    s3_region: str = "us-east-1"
    s3_bucket: str = "loraplex"
    s3_access_key_id: str | None = None
    s3_secret_access_key: SecretStr | None = None

    internal_url: str | None = None
    """Base URL of the controller's internal listener, where workers register."""
    internal_port: int | None = None
    outbound_http: bool = False
    """Whether addresses that tenants give (imports, webhooks) may be plain http://, in closed
    networks."""
    outbound_ports: str = "443"
    """Comma-separated ports, and ranges of them, that such addresses may have."""
    outbound_private_hosts: str | None = None
    """Comma-separated host names and networks outside the public internet that they may lead to."""
    outbound_ca_file: Path | None = None
    """A PEM file of authorities to trust for them, beside the public ones."""
    hub_url: str = "https://huggingface.co"
    """Where imports find Hugging Face repositories: the hub, or a mirror of it."""
    import_seconds: int = Field(default=600, ge=1, le=900)
    """How long fetching an import's files may take."""
    import_slots: int = Field(default=2, ge=1)
    """How many imports are fetched at once in all; of one tenant it is one."""
    max_upload_bytes: int = 1024 * 1024 * 1024
    upload_part_bytes: int = Field(default=8 * 1024 * 1024, ge=5 * 1024 * 1024)
    """How large the parts of a resumable upload are; S3 takes none below 5 MiB but the last."""
    upload_expiry_seconds: int = Field(default=24 * 3600, ge=60)
    """How long a resumable upload may take before it is given up and its bytes are released."""
    validation_seconds: int = 30
    validation_memory_bytes: int = 512 * 1024 * 1024
    usage_minutes_kept_days: int = Field(default=90, ge=2)
    """How long usage is known by the minute; by hour, day and request it is kept for ever."""
    shutdown_notice_seconds: float = Field(default=0, ge=0, le=120)
    """How long a gateway that was told to end still accepts, not ready, and answers calls with 503:
    as long as a load balancer needs to see it. Streams run on meanwhile, and some seconds more."""
    reservation_lease_seconds: float = Field(default=30, ge=1)
    """How long a gateway may be silent before its running requests are taken for abandoned."""
    recovery_lost_seconds: float = Field(default=120, ge=1)
    """How long after that a request whose tokens no worker can tell waits, before it is lost."""
    audit_kept_days: int = Field(default=400, ge=30)
    """How long the audit log is kept; the database itself forgets nothing of the last 30."""
    deleted_kept_seconds: int = Field(default=7 * 24 * 3600, ge=0)
    """How long deleted adapters and versions can be restored, before they are purged."""
    blob_grace_seconds: int = Field(default=24 * 3600, ge=3600)
    """How long bytes that nothing refers to stay in the object store."""

    @property
    def public_address(self) -> str:
        """Where people's browsers reach the platform, for links that are given to them."""
        return self.public_url or self.local_url

    @property
    def models_dir(self) -> Path:
        return self.data_dir / "models"

    @property
    def run_dir(self) -> Path:
        return self.data_dir / "run"

    @property
    def services_file(self) -> Path:
        return self.run_dir / "services.json"

    @property
    def is_loopback(self) -> bool:
        return self.host in {"127.0.0.1", "::1", "localhost"}

    @property
    def local_url(self) -> str:
        """The public address as a program on this machine calls it."""
        everywhere = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared, never bound
        host = everywhere.get(self.host, self.host)
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}"

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return (
            init_settings,
            env_settings,
            RunningServices(settings_cls, init_settings, env_settings),
        )


class RunningServices(PydanticBaseSettingsSource):
    """What a running `loraplex serve` on this data directory wrote of its own services."""

    def __init__(
        self,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
    ) -> None:
        super().__init__(settings_cls)
        known = env_settings() | init_settings()
        self.file = Path(known.get("data_dir", ".loraplex")) / "run" / "services.json"

    def get_field_value(self, field: Any, field_name: str) -> tuple[Any, str, bool]:
        raise NotImplementedError("this source answers as a whole")

    def __call__(self) -> dict[str, Any]:
        try:
            values: dict[str, Any] = json.loads(self.file.read_text())
        except FileNotFoundError:
            return {}
        return values
