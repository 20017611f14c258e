"""Reads a zip by our own rules. Its two lists of entries must say the same, byte for byte.

Tools differ in which list they believe, so an archive whose lists differ is two archives in one.
Encryption, volumes, ZIP64, comments and other methods than stored and deflated are refused.
"""

import stat
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from loraplex.adapters_registry.uploads.archives.rules import (
    IGNORED_BYTES,
    MAX_ENTRIES,
    EntryRules,
    refuse,
)

END = struct.Struct("<4s4H2LH")
CENTRAL = struct.Struct("<4s6H3L5H2L")
LOCAL = struct.Struct("<4s5H3L2H")
CENTRAL_ENTRY_BYTES = 1024
"""More than any entry of ours needs in the central list."""
CHUNK_BYTES = 256 * 1024
STORED, DEFLATED = 0, 8
HAS_DESCRIPTOR = 0x0008
ALLOWED_FLAGS = 0x0002 | 0x0004 | HAS_DESCRIPTOR | 0x0800
MAX_DESCRIPTOR_BYTES = 24
MADE_ON_UNIX = 3


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry as the central list has it."""

    name: str
    flags: int
    method: int
    crc: int
    packed_bytes: int
    size_bytes: int
    offset: int


def read_zip(file: BinaryIO, limit_bytes: int) -> Iterator[tuple[str, int, Iterator[bytes]]]:
    """Each wanted file's name, size and bytes, which must be read before the next is asked for.

    An archive that says that it unpacks to more than `limit_bytes` and IGNORED_BYTES is refused
    unread, and what an entry says is what it may have.
    """
    rules = EntryRules()
    entries, list_offset = _central_list(file)
    if sum(entry.size_bytes for entry in entries) > limit_bytes + IGNORED_BYTES:
        raise refuse("", "unpacks to more than an adapter may have")
    wanted = []
    for entry in entries:
        name = rules.file_of(entry.name, is_folder=entry.name.endswith("/"))
        if name is not None:
            wanted.append((name, entry))
    rules.check_complete()
    starts = _check_local_headers(file, entries, list_offset)
    for name, entry in wanted:
        yield name, entry.size_bytes, _bytes_of(file, entry, starts[entry.offset])


def _central_list(file: BinaryIO) -> tuple[list[Entry], int]:
    """The entries, and where their list begins."""
    size_bytes = file.seek(0, 2)
    if size_bytes < END.size:
        raise refuse("", "is cut short")
    file.seek(size_bytes - END.size)
    magic, disk, list_disk, here, count, list_bytes, offset, comment = END.unpack(
        file.read(END.size)
    )
    if magic != b"PK\x05\x06" or comment:
        raise refuse("", "is cut short, or ends in a comment", "no comment")
    if disk or list_disk or here != count:
        raise refuse("", "has several volumes", "one volume")
    if count > MAX_ENTRIES or list_bytes > MAX_ENTRIES * CENTRAL_ENTRY_BYTES:
        raise refuse("", f"has {count} entries or more", f"at most {MAX_ENTRIES}")
    if offset + list_bytes != size_bytes - END.size:
        raise refuse("", "has bytes that belong to no entry, or is a ZIP64 archive", "plain zip")
    file.seek(offset)
    data = file.read(list_bytes)
    entries, place = [], 0
    for _ in range(count):
        entry, place = _central_entry(data, place)
        entries.append(entry)
    if place != len(data):
        raise refuse("", "has a list of entries that is longer than it says")
    return entries, offset


def _central_entry(data: bytes, place: int) -> tuple[Entry, int]:
    if place + CENTRAL.size > len(data):
        raise refuse("", "has a list of entries that is cut short")
    (magic, made, _, flags, method, _, _, crc, packed, size, name_bytes, extra_bytes, note_bytes,
     disk, _, attributes, offset) = CENTRAL.unpack_from(data, place)  # fmt: skip
    start = place + CENTRAL.size
    end = start + name_bytes + extra_bytes + note_bytes
    if magic != b"PK\x01\x02" or disk or end > len(data):
        raise refuse("", "has a malformed list of entries")
    name = _text(data[start : start + name_bytes])
    if flags & ~ALLOWED_FLAGS or method not in (STORED, DEFLATED):
        raise refuse(name, "is encrypted or packed in an unusual way", "stored or deflated")
    if 0xFFFFFFFF in (packed, size, offset):
        raise refuse(name, "needs ZIP64", "plain zip, or .tar.gz")
    mode = stat.S_IFMT(attributes >> 16) if made >> 8 == MADE_ON_UNIX else 0
    if mode not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise refuse(name, "is a link or a special file", "regular files")
    if name.endswith("/") and size:
        raise refuse(name, "is a folder with bytes")
    return Entry(name, flags, method, crc, packed, size, offset), end


def _check_local_headers(file: BinaryIO, entries: list[Entry], list_offset: int) -> dict[int, int]:
    """Where each entry's bytes begin, by its offset, once nothing overlaps, hides or differs."""
    starts = {}
    place = 0
    for entry in sorted(entries, key=lambda entry: entry.offset):
        gap = entry.offset - place
        if gap:
            raise refuse(entry.name, "overlaps another, or hides bytes before it")
        file.seek(entry.offset)
        header = file.read(LOCAL.size)
        if len(header) < LOCAL.size:
            raise refuse(entry.name, "is cut short")
        magic, _, flags, method, _, _, crc, packed, size, name_bytes, extra_bytes = LOCAL.unpack(
            header
        )
        name = _text(file.read(name_bytes))
        told = (crc, packed, size)
        listed = (entry.crc, entry.packed_bytes, entry.size_bytes)
        is_later = entry.flags & HAS_DESCRIPTOR and told == (0, 0, 0)
        same = magic == b"PK\x03\x04" and (name, flags, method) == (
            entry.name,
            entry.flags,
            entry.method,
        )
        if not same or not (told == listed or is_later):
            raise refuse(entry.name, "has two headers that differ", "one meaning for every tool")
        starts[entry.offset] = entry.offset + LOCAL.size + name_bytes + extra_bytes
        place = starts[entry.offset] + entry.packed_bytes
        if entry.flags & HAS_DESCRIPTOR:
            place = _after_descriptor(file, entry, place, list_offset, entries)
    if place != list_offset:
        raise refuse("", "has bytes that belong to no entry")
    return starts


def _after_descriptor(
    file: BinaryIO, entry: Entry, place: int, list_offset: int, entries: list[Entry]
) -> int:
    """Where the next entry begins: a short record of sizes may follow an entry's bytes."""
    following = min(
        (other.offset for other in entries if other.offset > entry.offset), default=list_offset
    )
    if not place <= following <= place + MAX_DESCRIPTOR_BYTES:
        raise refuse(entry.name, "overlaps another, or hides bytes behind it")
    return following


def _bytes_of(file: BinaryIO, entry: Entry, start: int) -> Iterator[bytes]:
    """The entry's bytes, exactly as many as its headers say; raises ArchiveRefused."""
    crc = size_bytes = 0
    unpacker = zlib.decompressobj(-zlib.MAX_WBITS) if entry.method == DEFLATED else None
    place, packed_left, waiting = start, entry.packed_bytes, b""
    while True:
        if not waiting and packed_left:
            file.seek(place)
            waiting = file.read(min(CHUNK_BYTES, packed_left))
            if not waiting:
                raise refuse(entry.name, "is cut short")
            place, packed_left = place + len(waiting), packed_left - len(waiting)
        if unpacker is None:
            chunk, waiting = waiting, b""
        else:
            try:
                chunk = unpacker.decompress(waiting, CHUNK_BYTES)
            except zlib.error:
                raise refuse(entry.name, "is damaged") from None
            waiting = unpacker.unconsumed_tail
        size_bytes += len(chunk)
        if size_bytes > entry.size_bytes:
            raise refuse(entry.name, f"has more than the {entry.size_bytes} bytes it says")
        crc = zlib.crc32(chunk, crc)
        if chunk:
            yield chunk
        elif not waiting and not packed_left:
            break
    is_ended = unpacker is None or (unpacker.eof and not unpacker.unused_data)
    if not is_ended or size_bytes != entry.size_bytes or crc != entry.crc:
        raise refuse(entry.name, "is damaged")


def _text(name: bytes) -> str:
    try:
        return name.decode()
    except UnicodeDecodeError:
        raise refuse(name.decode(errors="replace"), "has a name that is no UTF-8") from None
