"""Why an embedded service or the supervisor cannot start; every message says what to do."""

from loraplex.engine.protocol.errors import DomainError, Kind


class DataDirInUse(DomainError):
    """Another supervisor runs on the same data directory."""

    kind, code = Kind.CONFLICT, "data_dir_in_use"


class PortBusy(DomainError):
    """Another program listens on the public port."""

    kind, code = Kind.CONFLICT, "port_busy"


class DataVersionMismatch(DomainError):
    """The database files were made by another major version of PostgreSQL."""

    kind, code = Kind.CONFLICT, "data_version_mismatch"


class RootNotSupported(DomainError):
    """PostgreSQL refuses to run as root, and this machine does not allow user namespaces."""

    kind, code = Kind.FORBIDDEN, "root_not_supported"


class ServiceUnavailable(DomainError):
    """A child process does not start, does not answer, or ended when it should not."""

    kind, code = Kind.OVERLOADED, "service_unavailable"


class IncompleteSettings(DomainError):
    """Some settings of an external service are given and others, which it needs, are not."""

    kind, code = Kind.INVALID, "incomplete_settings"
