"""Compiling the kernels where they run: once, for whoever may, and never as a condition."""

import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from loraplex.engine.kernels.native import build

ANSWER = """
import torch
from loraplex.engine.kernels.native.library import library
from loraplex.engine.models.linear import pack
print(library() is not None)
weight = torch.arange(12.0).view(3, 4).bfloat16()
packed = pack(weight, torch.float32)
print(packed.multiply(torch.ones(2, 4)).tolist())
print(pack(weight, torch.float32, is_embedding=True).rows(torch.tensor([2])).tolist())
"""


def answers(**environment: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", ANSWER],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


def test_without_a_compiler_torch_computes_the_same(tmp_path: Path) -> None:
    assert answers(PATH=str(tmp_path), CXX="", XDG_CACHE_HOME=str(tmp_path)) == [
        "False",
        "[[6.0, 22.0, 38.0], [6.0, 22.0, 38.0]]",
        "[[8.0, 9.0, 10.0, 11.0]]",
    ]


def test_a_compiler_that_fails_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broken = tmp_path / "c++"
    broken.write_text("#!/bin/sh\necho no such thing >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("CXX", str(broken))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert build.compiled() is None
    assert "no such thing" in caplog.text


@pytest.fixture
def small_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A source that compiles in no time, and a cache of its own."""
    sources = tmp_path / "sources"
    sources.mkdir()
    (sources / "one.cpp").write_text('extern "C" int one() { return 1; }\n')
    monkeypatch.setattr(build, "SOURCES", sources)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    if build.compiled() is None:
        pytest.skip("no C++ compiler on this machine")
    return sources


def test_processes_that_compile_at_once_end_with_one_library(small_source: Path) -> None:
    (small_source / "one.cpp").write_text('extern "C" int two() { return 2; }\n')
    with ThreadPoolExecutor(4) as threads:
        libraries = set(threads.map(lambda _: build.compiled(), range(4)))
    assert len(libraries) == 1


def test_another_source_is_another_library(small_source: Path) -> None:
    first = build.compiled()
    assert build.compiled() == first
    (small_source / "new.h").write_text("// changed\n")
    assert build.compiled() != first


def test_a_cache_that_others_may_write_to_is_not_trusted(small_source: Path) -> None:
    first = build.compiled()
    assert first is not None
    first.parent.chmod(0o777)
    library = build.compiled()
    assert library is not None
    assert library.parent != first.parent
    assert not library.parent.stat().st_mode & stat.S_IWOTH
