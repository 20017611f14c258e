"""What the benchmark scripts in tests/benchmarks share: a model to open, and lines of JSON."""

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from loraplex.engine.protocol.describe import load_or_describe, locate_model
from loraplex.engine.protocol.module_table import ModuleTable


def arguments_of(description: str | None) -> argparse.ArgumentParser:
    """A parser that knows --model and --threads."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", required=True, help="a model's directory")
    parser.add_argument("--threads", type=int, help="one a core by default")
    return parser


@contextmanager
def opened_model(model: str) -> Iterator[tuple[Path, ModuleTable, Path]]:
    """The model's directory, its table, and a folder for the run's own files."""
    with TemporaryDirectory(prefix="loraplex-bench-") as folder:
        model_dir = locate_model(model, Path())
        yield model_dir, load_or_describe(model_dir, None, Path(folder)), Path(folder)


def print_line(benchmark: str, **fields: object) -> None:
    """One line of JSON, at once; floats to four digits after the point."""
    rounded = {
        name: round(value, 4) if isinstance(value, float) else value
        for name, value in fields.items()
    }
    sys.stdout.write(json.dumps({"benchmark": benchmark, **rounded}) + "\n")
    sys.stdout.flush()
