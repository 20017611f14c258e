"""Reads a .tar.gz by our own rules: regular files and folders, short names, nothing behind the end.

The tar is read as it is unpacked, and unpacking ends at a limit, whatever the headers say.
"""

import zlib
from collections.abc import Iterator
from typing import BinaryIO

from loraplex.adapters_registry.uploads.archives.rules import (
    IGNORED_BYTES,
    MAX_ENTRIES,
    EntryRules,
    refuse,
)

BLOCK_BYTES = 512
CHUNK_BYTES = 256 * 1024
MAX_PAX_BYTES = 64 * 1024
KINDS = {
    b"1": "a hard link",
    b"2": "a symbolic link",
    b"3": "a device",
    b"4": "a device",
    b"6": "a pipe",
    b"K": "a link of a long name",
    b"L": "a file of a long name",
    b"S": "a sparse file",
}


def read_tar_gz(file: BinaryIO, limit_bytes: int) -> Iterator[tuple[str, int, Iterator[bytes]]]:
    """Each wanted file's name, size and bytes, which must be read before the next is asked for.

    At most `limit_bytes` and IGNORED_BYTES are unpacked in all.
    """
    stream = _Unpacked(file, limit_bytes + IGNORED_BYTES)
    rules = EntryRules()
    for _ in range(3 * MAX_ENTRIES):
        header = stream.read(BLOCK_BYTES)
        if not any(header):
            break
        path, kind, size_bytes = _parsed(header)
        if kind in (b"x", b"g"):
            _check_pax(stream, size_bytes)
        elif kind in (b"0", b"\0", b"5"):
            name = rules.file_of(path, is_folder=kind == b"5")
            if name is None:
                for _chunk in stream.chunks(size_bytes):
                    pass
            else:
                yield name, size_bytes, stream.chunks(size_bytes)
        else:
            raise refuse(path, f"is {KINDS.get(kind, 'a special file')}", "regular files")
        stream.read(-size_bytes % BLOCK_BYTES)
    else:
        raise refuse("", f"has more than {MAX_ENTRIES} entries", f"at most {MAX_ENTRIES}")
    rules.check_complete()
    stream.check_end()


def _parsed(header: bytes) -> tuple[str, bytes, int]:
    """A header's path, kind and size; raises ArchiveRefused for a malformed one."""
    summed = sum(header[:148]) + 8 * ord(" ") + sum(header[156:])
    if header[257:262] != b"ustar" or _number(header[148:156]) != summed:
        raise refuse("", "is no tar of today's formats, or is damaged", "ustar or pax")
    name, prefix = header[:100].split(b"\0")[0], header[345:500].split(b"\0")[0]
    is_posix = header[257:263] == b"ustar\0"  # GNU's older kind keeps times where the prefix is
    path = b"/".join((prefix, name)) if is_posix and prefix else name
    try:
        return path.decode(), header[156:157], _number(header[124:136])
    except UnicodeDecodeError:
        raise refuse(path.decode(errors="replace"), "has a name that is no UTF-8") from None


def _number(field: bytes) -> int:
    digits = field.strip(b" \0")
    if not digits or digits.strip(b"01234567"):
        raise refuse("", "has a header with a malformed or too large number", "octal digits")
    return int(digits, 8)


def _check_pax(stream: "_Unpacked", size_bytes: int) -> None:
    """Times and owners may stand there, and nothing that says what or where a file is."""
    if size_bytes > MAX_PAX_BYTES:
        raise refuse("", f"has an extended header of {size_bytes} bytes", f"{MAX_PAX_BYTES} bytes")
    data = stream.read(size_bytes)
    while data:
        length, _, rest = data.partition(b" ")
        if not length.isdigit() or len(length) > 5 or not len(length) < int(length) <= len(data):
            raise refuse("", "has a malformed extended header")
        key = rest[: int(length) - len(length) - 1].partition(b"=")[0]
        if key in (b"path", b"linkpath", b"size") or key.startswith(b"GNU.sparse"):
            raise refuse("", f"changes {key.decode()!r} in an extended header", "plain headers")
        data = data[int(length) :]


class _Unpacked:
    """What one gzip member holds, up to a limit."""

    def __init__(self, file: BinaryIO, limit_bytes: int) -> None:
        self._file = file
        self._left_bytes = limit_bytes
        self._unpacker = zlib.decompressobj(16 + zlib.MAX_WBITS)
        self._packed = b""

    def read(self, size_bytes: int) -> bytes:
        """So many bytes; raises ArchiveRefused when there are fewer."""
        return b"".join(self.chunks(size_bytes))

    def chunks(self, size_bytes: int) -> Iterator[bytes]:
        """So many bytes, in pieces."""
        if size_bytes > self._left_bytes:
            raise refuse("", "unpacks to more than an adapter may have")
        self._left_bytes -= size_bytes
        while size_bytes:
            chunk = self._some(min(size_bytes, CHUNK_BYTES))
            if not chunk:
                raise refuse("", "is cut short")
            size_bytes -= len(chunk)
            yield chunk

    def check_end(self) -> None:
        """Raise ArchiveRefused unless zeros alone are left."""
        while chunk := self._some(CHUNK_BYTES):
            self._left_bytes -= len(chunk)
            if self._left_bytes < 0 or any(chunk):
                raise refuse("", "has something behind its end")
        if not self._unpacker.eof or self._unpacker.unused_data or self._file.read(1):
            raise refuse("", "is cut short, or has something behind its end")

    def _some(self, most_bytes: int) -> bytes:
        """One byte or more; none at the end of the member."""
        while not self._unpacker.eof:
            packed = self._packed or self._file.read(CHUNK_BYTES)
            if not packed:
                return b""
            try:
                chunk = self._unpacker.decompress(packed, most_bytes)
            except zlib.error:
                raise refuse("", "is damaged") from None
            self._packed = self._unpacker.unconsumed_tail
            if chunk:
                return chunk
        return b""
