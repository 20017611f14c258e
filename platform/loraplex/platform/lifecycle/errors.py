"""Refusals of what operators do with tenants' lives."""

from loraplex.engine.protocol.errors import DomainError, Kind


class TenantGoing(DomainError):
    """The tenant is being deleted, or has been: nothing of it can be changed any more."""

    kind, code = Kind.CONFLICT, "tenant_deleted"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"The tenant {name!r} is deleted.", field="tenant", rule="not deleted", value=name
        )


class NameNotConfirmed(DomainError):
    """A deletion must name the tenant once more."""

    kind, code = Kind.INVALID, "name_not_confirmed"

    def __init__(self) -> None:
        super().__init__(
            "`confirm` should be the tenant's name: what is deleted does not come back.",
            field="confirm",
            rule="the tenant's name",
        )


class ExportNotFound(DomainError):
    """The tenant has no such export, or it has expired."""

    kind, code = Kind.NOT_FOUND, "export_not_found"

    def __init__(self, export_id: object) -> None:
        super().__init__(f"There is no export {export_id}.", field="export", value=str(export_id))


class ExportNotReady(DomainError):
    """The archive is still being written, or could not be."""

    kind, code = Kind.CONFLICT, "export_not_ready"

    def __init__(self, status: str) -> None:
        super().__init__(
            f"The export is {status}: there is nothing to download.",
            field="export",
            rule="completed",
            value=status,
        )


class TooManyExports(DomainError):
    """The tenant is being exported already."""

    kind, code = Kind.CONFLICT, "export_under_way"

    def __init__(self) -> None:
        super().__init__("An export of this tenant is under way.", rule="one export at a time")
