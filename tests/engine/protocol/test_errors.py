"""Every refusal has a code of its own."""

import importlib
import pkgutil

import loraplex.engine
from loraplex.engine.protocol.errors import DomainError, FixedRefusal, Kind


def engine_errors() -> list[type[DomainError]]:
    for module in pkgutil.walk_packages(loraplex.engine.__path__, "loraplex.engine."):
        if module.name.endswith(".errors"):
            importlib.import_module(module.name)
    found, unseen = [], [DomainError]
    while unseen:
        below = unseen.pop().__subclasses__()
        unseen += below
        found += [error for error in below if error.__module__.startswith("loraplex.engine")]
    return found


def test_no_two_errors_of_the_engine_share_a_code() -> None:
    # A narrower case of an error may go by the same code.
    codes = [error.code for error in engine_errors() if "code" in vars(error)]

    assert len(codes) >= 10
    assert sorted(codes) == sorted(set(codes))


def test_every_error_says_how_to_react_and_documents_itself() -> None:
    for error in engine_errors():
        assert error is FixedRefusal or error.kind in Kind
        assert error.__doc__


def test_an_error_is_its_message() -> None:
    class Refused(DomainError):
        kind, code = Kind.INVALID, "refused"

    error = Refused("No.", field="rank", rule="≥ 1", value=0)

    assert str(error) == error.message == "No."
    assert (error.field, error.rule, error.value) == ("rank", "≥ 1", 0)


def test_what_a_class_declares_holds_unless_something_else_is_given() -> None:
    class Refused(DomainError):
        kind, code, field = Kind.LIMITED, "refused", "rank"
        rule, value, retry_after_seconds = "≥ 1", 0, 5

    declared, given = Refused("No."), Refused("No.", rule="≥ 2", value=1, retry_after_seconds=0)

    assert (declared.field, declared.rule, declared.value) == ("rank", "≥ 1", 0)
    assert declared.retry_after_seconds == 5
    assert (given.field, given.rule, given.value) == ("rank", "≥ 2", 1)
    assert given.retry_after_seconds == 0


def test_a_fixed_refusal_says_what_its_class_declares() -> None:
    class Refused(FixedRefusal):
        kind, code = Kind.INVALID, "refused"
        message = "Never."

    assert str(Refused()) == Refused().message == "Never."
    assert Refused().field is None
