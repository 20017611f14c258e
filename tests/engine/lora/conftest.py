"""Small bases of several kinds, once for the tests of a module."""

import pytest

from tests.engine.lora.options import BASES, Served
from tests.engine.tiny import describe, make_model


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Served]:
    found = {}
    for name, (model_type, changes) in BASES.items():
        directory = make_model(tmp_path_factory.mktemp(name), model_type, **changes)
        found[name] = Served(directory, describe(directory))
    return found
