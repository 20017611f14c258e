"""Fetches a model from the Hugging Face hub: safetensors, config and tokenizer; never code."""

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from loraplex.engine.importing.directory import make_model_directory
from loraplex.engine.importing.errors import (
    ModelSourceNotFound,
    ModelSourceUnavailable,
    UnknownModelSource,
)
from loraplex.engine.importing.progress import Progress
from loraplex.engine.protocol.errors import UnsupportedModel
from loraplex.engine.protocol.model_config import read_model_config
from loraplex.engine.protocol.model_files import TEXT_FILES, TOKENIZER_FILE, WEIGHTS_FILE

_REPOSITORY: Final = re.compile(
    r"(?P<owner>[A-Za-z0-9][\w.-]{0,95})/(?P<name>[A-Za-z0-9][\w.-]{0,95})(@(?P<revision>[\w./-]{1,200}))?",
    re.ASCII,
)
_WEIGHTS: Final = re.compile(r"model(-\d+-of-\d+)?\.safetensors")


@dataclass(frozen=True)
class HubRepository:
    """`OWNER/NAME` at a branch, tag or commit; the hub's default branch when None."""

    owner: str
    name: str
    revision: str | None

    @property
    def repo_id(self) -> str:
        return f"{self.owner}/{self.name}"

    @property
    def origin(self) -> str:
        return f"hf:{self.repo_id}" + (f"@{self.revision}" if self.revision else "")


def import_from_hub(repository_name: str, models_dir: Path, progress: Progress) -> Path:
    """Fetch `OWNER/NAME[@REVISION]` into `<models_dir>/<name in lower case>`.

    The config comes first, so that an architecture that is not served costs no download of its
    weights. Raises as `import_model` does.
    """
    repository = _parse(repository_name)

    def fill(directory: Path) -> None:
        with tempfile.TemporaryDirectory(prefix=".download-", dir=directory) as scratch:
            _fetch(repository, Path(scratch), directory, progress)

    return make_model_directory(models_dir, repository.name.lower(), repository.origin, fill)


def _parse(text: str) -> HubRepository:
    matched = _REPOSITORY.fullmatch(text)
    if matched is None:
        raise _no_repository(text)
    return HubRepository(matched["owner"], matched["name"], matched["revision"])


def _no_repository(text: str) -> UnknownModelSource:
    return UnknownModelSource(
        f"{text!r} is no repository of the hub; write hf:OWNER/NAME or hf:OWNER/NAME@REVISION.",
        field="source",
        rule="hf:OWNER/NAME[@REVISION]",
        value=text,
    )


def _fetch(repository: HubRepository, scratch: Path, directory: Path, progress: Progress) -> None:
    try:
        from huggingface_hub import HfApi
        from huggingface_hub.utils.tqdm import disable_progress_bars
    except ImportError as error:
        raise ModelSourceUnavailable(
            "Models of the hub are fetched with the package huggingface-hub, which is not "
            "installed. Install it with `python -m pip install 'loraplex[hub]'`.",
            field="source",
            rule="huggingface-hub installed",
            value=repository.origin,
        ) from error
    disable_progress_bars()
    api = HfApi(endpoint=os.environ.get("HF_ENDPOINT"), library_name="loraplex")
    with _plain_errors(repository):
        progress(f"Asking the hub for {repository.repo_id}", 0, 0)
        found = api.model_info(
            repository.repo_id, revision=repository.revision, files_metadata=True
        )
        sizes = {sibling.rfilename: sibling.size or 0 for sibling in found.siblings or []}
        wanted = _wanted_files(repository, set(sizes))
        total_bytes, done_bytes = sum(sizes[name] for name in wanted), 0
        for name in wanted:
            progress(f"Downloading {repository.repo_id}", done_bytes, total_bytes)
            # The commit that was listed is the one fetched, even if the branch moves meanwhile.
            fetched = api.hf_hub_download(
                repository.repo_id, name, revision=found.sha, local_dir=scratch
            )
            shutil.move(fetched, directory / name)
            done_bytes += sizes[name]
            if name == "config.json":
                read_model_config(directory)


def _wanted_files(repository: HubRepository, names: set[str]) -> list[str]:
    """The files to fetch, the config first and the weights last."""
    weights = sorted(name for name in names if _WEIGHTS.fullmatch(name))
    for missing, is_there in {
        "config.json": "config.json" in names,
        TOKENIZER_FILE: TOKENIZER_FILE in names,
        WEIGHTS_FILE: bool(weights),
    }.items():
        if not is_there:
            raise UnsupportedModel(
                f"{repository.repo_id} has no {missing}. Served are models with config.json, "
                "tokenizer.json and weights in safetensors; pickled weights are never fetched.",
                field=missing,
                rule="present",
                value="missing",
            )
    texts = sorted(names & set(TEXT_FILES), key=lambda name: (name != "config.json", name))
    if WEIGHTS_FILE in weights:
        weights = [WEIGHTS_FILE]
    return texts + weights


@contextmanager
def _plain_errors(repository: HubRepository) -> Iterator[None]:
    """What the hub's library raises, said in words a person can act on."""
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        HFValidationError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    # The library's HTTP client changed its name between versions; its errors are this one's base.
    client_error: type[Exception] = HfHubHTTPError.__bases__[0]
    try:
        yield
    except HFValidationError as error:
        raise _no_repository(repository.repo_id) from error
    except GatedRepoError as error:
        raise ModelSourceNotFound(
            f"{repository.repo_id} asks for its terms to be accepted on the hub's page first; "
            "then set HF_TOKEN to a token of that account.",
            field="source",
            rule="open to this account",
            value=repository.origin,
        ) from error
    except (RepositoryNotFoundError, RevisionNotFoundError) as error:
        raise ModelSourceNotFound(
            f"The hub has no {repository.origin} that this account may read. Check the name; a "
            "private model needs HF_TOKEN.",
            field="source",
            rule="a repository of the hub",
            value=repository.origin,
        ) from error
    except (client_error, ConnectionError, TimeoutError, LocalEntryNotFoundError) as error:
        raise ModelSourceUnavailable(
            f"{repository.repo_id} could not be fetched from the Hugging Face hub: there is no "
            f"network to it, or it answered with an error ({type(error).__name__}). Without a "
            "network, copy the model's directory here and serve it with --model DIRECTORY.",
            field="source",
            rule="reachable",
            value=repository.origin,
        ) from error
