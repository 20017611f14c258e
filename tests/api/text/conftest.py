from pathlib import Path

import pytest
from tokenizers import Tokenizer

from loraplex.api.text.base_text import BaseText


@pytest.fixture(scope="session")
def base_text(smollm2_dir: Path) -> BaseText:
    return BaseText.load(smollm2_dir)


@pytest.fixture(scope="session")
def tokenizer(smollm2_dir: Path) -> Tokenizer:
    return Tokenizer.from_file(str(smollm2_dir / "tokenizer.json"))
