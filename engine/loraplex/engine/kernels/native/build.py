"""Compiles the C++ kernels for this very processor, once, into the user's cache."""

import hashlib
import logging
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

log = logging.getLogger(__name__)

SOURCES: Final = Path(__file__).parent
FLAGS: Final = (
    "-std=c++17",
    "-O3",
    "-march=native",
    "-ffp-contract=off",  # which products are fused is said in the source, so that bits repeat
    "-fPIC",
    "-shared",
)
COMPILERS: Final = ("c++", "g++", "clang++")
COMPILE_SECONDS: Final = 120


def compiled() -> Path | None:
    """The shared library's path; None, with a line in the log, where it cannot be had."""
    compiler = next(filter(None, map(shutil.which, (os.environ.get("CXX", ""), *COMPILERS))), None)
    if compiler is None:
        log.warning(
            "No C++ compiler was found (g++ or clang++), so the engine's CPU kernels run on "
            "torch's operators alone, several times slower."
        )
        return None
    sources = sorted(SOURCES.glob("*.cpp"))
    library = _cache_dir() / f"kernels-{_fingerprint(compiler)}.so"
    if library.exists():
        return library
    for flags in (("-fopenmp",), ()):
        problem = _compile([compiler, *FLAGS, *flags, *map(str, sources)], library)
        if problem is None:
            return library
    log.warning("The engine's CPU kernels could not be compiled by %s:\n%s", compiler, problem)
    return None


def _compile(command: list[str], library: Path) -> str | None:
    """Compile to a file of its own and move it into place, since others may be compiling too."""
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:
        made = Path(folder) / library.name
        try:
            subprocess.run(
                [*command, "-o", str(made)],
                check=True,
                capture_output=True,
                text=True,
                timeout=COMPILE_SECONDS,
            )
        except subprocess.CalledProcessError as error:
            return str(error.stderr)
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
        made.replace(library)
    return None


def _fingerprint(compiler: str) -> str:
    """Whatever a binary depends on: sources, flags, compiler, and the processor it is made for."""
    digest = hashlib.sha256()
    for path in sorted([*SOURCES.glob("*.cpp"), *SOURCES.glob("*.h")]):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    digest.update("\0".join(FLAGS).encode())
    # What `native` stands for, in the compiler's own words.
    version = subprocess.run(
        [compiler, "-march=native", "-E", "-v", "-x", "c++", os.devnull],
        check=False,
        capture_output=True,
        timeout=COMPILE_SECONDS,
    )
    digest.update(version.stderr)
    return digest.hexdigest()[:32]


def _cache_dir() -> Path:
    """A folder that only this user can write to: what lies in it will be executed."""
    try:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        folder = base / "loraplex" / "kernels"
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        status = folder.stat()
        if status.st_uid == os.getuid() and not status.st_mode & 0o022:
            with tempfile.TemporaryFile(dir=folder):
                return folder
    except (OSError, RuntimeError):  # a user without a home has no folder either
        pass
    return Path(tempfile.mkdtemp(prefix="loraplex-kernels-"))
