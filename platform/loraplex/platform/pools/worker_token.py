"""The bearer token between workers and the controller; light, because the launcher needs it."""

from loraplex.platform.secrets import SecretKeys

TOKEN_PURPOSE = "worker-registration"  # noqa: S105


def worker_token(secrets: SecretKeys) -> str:
    """The bearer token that workers are launched with."""
    return secrets.derive(TOKEN_PURPOSE).hex()
