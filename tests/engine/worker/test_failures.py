"""Errors keep their kind and what they name on their way between processes."""

import pytest

from loraplex.engine.protocol.errors import ENGINE_ERRORS, DomainError, EngineFailure
from loraplex.engine.protocol.generation import RequestFailure


@pytest.mark.parametrize("error_class", ENGINE_ERRORS.values())
def test_an_error_arrives_as_it_was_sent(error_class: type[DomainError]) -> None:
    sent = error_class("So it is.", field="f", rule="r", value=3, retry_after_seconds=5)
    received = RequestFailure.of(sent).to_error()
    assert type(received) is error_class
    assert vars(received) == vars(sent)


def test_an_unknown_code_is_the_engines_failure() -> None:
    assert isinstance(RequestFailure("from_the_future", "New.").to_error(), EngineFailure)
