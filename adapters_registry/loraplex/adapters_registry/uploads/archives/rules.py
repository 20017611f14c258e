"""Which entries an archive may have: a flat list of known names, perhaps in one folder."""

from dataclasses import dataclass, field

from loraplex.adapters_registry.rejection import shortened
from loraplex.adapters_registry.uploads.files import CONFIG_NAME, WEIGHTS_NAME
from loraplex.engine.protocol.errors import DomainError, Kind

MAX_ENTRIES = 64
IGNORED_BYTES = 64 * 1024 * 1024
"""What ignored files, and a tar's own blocks, may add to the adapter's."""
WANTED = (CONFIG_NAME, WEIGHTS_NAME)
IGNORED = frozenset(
    {
        ".gitattributes",
        ".gitignore",
        "LICENSE",
        "LICENSE.md",
        "LICENSE.txt",
        "NOTICE",
        "README.md",
        "added_tokens.json",
        "all_results.json",
        "chat_template.jinja",
        "eval_results.json",
        "generation_config.json",
        "merges.txt",
        "special_tokens_map.json",
        "tokenizer.json",
        "tokenizer.model",
        "tokenizer_config.json",
        "train_results.json",
        "trainer_state.json",
        "vocab.json",
    }
)
"""What training tools write beside an adapter, and what changes nothing about it."""
PICKLES = (".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt")


class ArchiveRefused(DomainError):
    """The archive is not one that is opened here; nothing of it was kept."""

    kind, code = Kind.INVALID, "archive_refused"


def refuse(entry: str, why: str, rule: str | None = None) -> ArchiveRefused:
    """The refusal of one entry, or with an empty name of the whole archive."""
    shown = shortened(entry)
    what = f"The archive's entry {shown!r}" if entry else "The archive"
    return ArchiveRefused(f"{what} {why}.", field=shown or None, rule=rule)


@dataclass
class EntryRules:
    """Judges one archive's entries as they come."""

    taken: set[str] = field(default_factory=set)
    _top: str | None = None
    """The folder all entries are in; empty when there is none, None before the first entry."""
    _entries: int = 0

    def file_of(self, path: str, *, is_folder: bool = False) -> str | None:
        """The name of a file to take; None for what is ignored. Raises ArchiveRefused."""
        self._entries += 1
        if self._entries > MAX_ENTRIES:
            raise refuse("", f"has more than {MAX_ENTRIES} entries", f"at most {MAX_ENTRIES}")
        parts = self._parts(path, is_folder)
        if not parts:
            return None
        *folders, name = [*parts, ""] if is_folder else parts
        if len(folders) > 1:
            raise refuse(path, "lies deeper than in one folder", "one folder at most")
        top = folders[0] if folders else ""
        if self._top not in (None, top):
            raise refuse(path, "does not lie where the others do", "one folder at most")
        self._top = top
        if is_folder or name in IGNORED:
            return None
        if name in self.taken:
            raise refuse(path, "is there twice", "once")
        if name not in WANTED:
            why = "is a pickle, which is never opened" if name.endswith(PICKLES) else "is not known"
            raise refuse(path, why, f"{' and '.join(WANTED)}, beside what the API's guide lists")
        self.taken.add(name)
        return name

    def check_complete(self) -> None:
        """Raise ArchiveRefused unless both files were there."""
        if missing := [name for name in WANTED if name not in self.taken]:
            raise refuse("", f"has no {' and no '.join(missing)}", " and ".join(WANTED))

    def _parts(self, path: str, is_folder: bool) -> list[str]:
        if path.startswith("/") or "\\" in path or not path.isprintable():
            raise refuse(path, "has a name that no file of an adapter has", "a relative path")
        relative = path.removeprefix("./")
        if is_folder:
            relative = relative.removesuffix("/")
            if relative in ("", "."):
                return []
        parts = relative.split("/")
        if any(part in ("", ".", "..") for part in parts):
            raise refuse(path, "has a name that leaves its folder", "no empty part, . or ..")
        return parts
