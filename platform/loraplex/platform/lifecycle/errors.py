"""Refusals of what operators do with tenants' lives."""

from loraplex.engine.protocol.errors import DomainError, FixedRefusal, Kind


class TenantGoing(DomainError):
    """The tenant is being deleted, or has been: nothing of it can be changed any more."""

    kind, code = Kind.CONFLICT, "tenant_deleted"
    field, rule = "tenant", "not deleted"

    def __init__(self, name: str) -> None:
        super().__init__(f"The tenant {name!r} is deleted.", value=name)


class NameNotConfirmed(FixedRefusal):
    """A deletion must name the tenant once more."""

    kind, code = Kind.INVALID, "name_not_confirmed"
    field, rule = "confirm", "the tenant's name"
    message = "`confirm` should be the tenant's name: what is deleted does not come back."


class ExportNotFound(DomainError):
    """The tenant has no such export, or it has expired."""

    kind, code, field = Kind.NOT_FOUND, "export_not_found", "export"

    def __init__(self, export_id: object) -> None:
        super().__init__(f"There is no export {export_id}.", value=str(export_id))


class ExportNotReady(DomainError):
    """The archive is still being written, or could not be."""

    kind, code = Kind.CONFLICT, "export_not_ready"
    field, rule = "export", "completed"

    def __init__(self, status: str) -> None:
        super().__init__(f"The export is {status}: there is nothing to download.", value=status)


class TooManyExports(FixedRefusal):
    """The tenant is being exported already."""

    kind, code = Kind.CONFLICT, "export_under_way"
    rule = "one export at a time"
    message = "An export of this tenant is under way."
