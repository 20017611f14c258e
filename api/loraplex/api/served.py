"""Which version a request was pinned to, told by a header of its answer, refusals too."""

from starlette.requests import Request

VERSION_HEADER = "x-adapter-version"


def pin(request: Request, version: str) -> None:
    """Remember the version, or the base, that serves this request."""
    request.state.adapter_version = version


def version_header(request: Request) -> dict[str, str]:
    """The header that tells of it; none before the model is resolved."""
    version: str | None = getattr(request.state, "adapter_version", None)
    return {} if version is None else {VERSION_HEADER: version}
