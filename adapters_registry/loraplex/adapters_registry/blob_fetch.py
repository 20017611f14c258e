"""Fetches one object by presigned URL: bounded, verified while it streams, retried with care.

A large object is asked for in ranges, several at a time, since one connection to a distant store is
slower than the network.
"""

import errno
import hashlib
import http.client
import os
import random
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from loraplex.adapters_registry.transfer import Attempt, Transfer
from loraplex.engine.protocol.identity import Digest

ATTEMPTS: Final = 5
FIRST_WAIT_SECONDS: Final = 0.1
LONGEST_WAIT_SECONDS: Final = 2.0
TIMEOUT_SECONDS: Final = 10.0
"""For connecting, and for each read."""
LEAST_BYTES_PER_SECOND: Final = 64 * 1024
"""Whoever sends more slowly than this, after `TIMEOUT_SECONDS`, is taken for broken: one byte now
and then would otherwise hold a load for ever."""
CHUNK_BYTES: Final = 1024 * 1024
RANGE_BYTES: Final = 8 * 1024 * 1024
RANGES_AT_ONCE: Final = 4
RETRIED_STATUS: Final = frozenset({408, 429, 500, 502, 503, 504})
WHOLE, PARTIAL = 200, 206


class FetchFailed(Exception):
    """The object could not be had; the message says why, without the URL (it is a credential)."""


class TryAgain(FetchFailed):
    """It might work in a moment."""


def fetch_blob(
    url: str, path: Path, digest: Digest, size_bytes: int, transfer: Transfer | None = None
) -> None:
    """Write the object to a new file at `path` and flush it to disk; blocks, retries included.

    Who follows `transfer` reads what has come, before it is known to be right and flushed.

    The bytes have the digest and size asked for, or FetchFailed is raised and nothing is left.
    OSError of the local disk passes through.
    """
    transfer = transfer or Transfer()
    for attempt in range(ATTEMPTS):
        try:
            fetch_once(url, path, digest, size_bytes, transfer)
            return
        except TryAgain:
            path.unlink(missing_ok=True)
            if attempt == ATTEMPTS - 1:
                raise
            longest = min(LONGEST_WAIT_SECONDS, FIRST_WAIT_SECONDS * 2**attempt)
            time.sleep(random.uniform(longest / 2, longest))  # noqa: S311 # spreads retries
        except BaseException:
            path.unlink(missing_ok=True)
            raise


def fetch_once(url: str, path: Path, digest: Digest, size_bytes: int, transfer: Transfer) -> None:
    if urlsplit(url).scheme not in ("http", "https"):
        raise FetchFailed("its address is neither http nor https")
    target = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with transfer.attempt(target) as attempt:
            fetch = fetch_ranges if size_bytes > 2 * RANGE_BYTES else fetch_whole
            if fetch(url, target, size_bytes, attempt) != digest:
                raise TryAgain("the object store sent other bytes than were uploaded")
        os.fsync(target)
    finally:
        os.close(target)


def fetch_whole(url: str, target: int, size_bytes: int, attempt: Attempt) -> Digest:
    with asked(url) as answer:
        return copy_whole(answer, target, size_bytes, attempt)


def copy_whole(
    answer: http.client.HTTPResponse, target: int, size_bytes: int, attempt: Attempt
) -> Digest:
    """Copy an answer that shall have the whole object; the digest of what came."""
    hasher, end = hashlib.sha256(), 0
    for chunk in body_of(answer, size_bytes):
        write_all(target, chunk, None)
        end += len(chunk)
        attempt.advance(end)
        hasher.update(chunk)
    return Digest(f"sha256:{hasher.hexdigest()}")


def fetch_ranges(url: str, target: int, size_bytes: int, attempt: Attempt) -> Digest:
    """Fetch ranges side by side and hash each as soon as all before it are there.

    A store that knows no ranges answers with the whole object, which is taken.
    """
    spans = [
        (start, min(start + RANGE_BYTES, size_bytes)) for start in range(0, size_bytes, RANGE_BYTES)
    ]
    hasher = hashlib.sha256()
    with asked(url, spans[0]) as answer, ThreadPoolExecutor(RANGES_AT_ONCE) as threads:
        if answer.status == WHOLE:
            return copy_whole(answer, target, size_bytes, attempt)
        rest = [threads.submit(fetch_range, url, target, *span) for span in spans[1:]]
        try:
            copy_range(answer, target, *spans[0])
            hash_range(hasher, target, *spans[0])
            attempt.advance(spans[0][1])
            for part, span in zip(rest, spans[1:], strict=True):
                part.result()
                hash_range(hasher, target, *span)
                attempt.advance(span[1])
        finally:
            threads.shutdown(cancel_futures=True)
    return Digest(f"sha256:{hasher.hexdigest()}")


def fetch_range(url: str, target: int, start: int, end: int) -> None:
    with asked(url, (start, end)) as answer:
        if answer.status != PARTIAL:
            raise TryAgain("the object store answered a range with something else")
        copy_range(answer, target, start, end)


def copy_range(answer: http.client.HTTPResponse, target: int, start: int, end: int) -> None:
    for chunk in body_of(answer, end - start):
        write_all(target, chunk, start)
        start += len(chunk)


def hash_range(hasher: "hashlib._Hash", target: int, start: int, end: int) -> None:
    while start < end:
        chunk = os.pread(target, min(CHUNK_BYTES, end - start), start)
        if not chunk:
            raise TryAgain("the file was cut while it was written")
        hasher.update(chunk)
        start += len(chunk)


@contextmanager
def asked(url: str, span: tuple[int, int] | None = None) -> Iterator[http.client.HTTPResponse]:
    """The store's answer to a GET, of bytes `span[0]` to `span[1]` alone where given."""
    request = urllib.request.Request(url)  # noqa: S310 # http or https, by the caller
    if span is not None:
        request.add_header("Range", f"bytes={span[0]}-{span[1] - 1}")
    try:
        answer = urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS)  # noqa: S310 # likewise
    except urllib.error.HTTPError as error:
        error.close()
        kind = TryAgain if error.code in RETRIED_STATUS else FetchFailed
        raise kind(f"the object store answered {error.code}") from None
    except (OSError, http.client.HTTPException) as error:
        raise TryAgain(f"the object store cannot be reached ({type(error).__name__})") from None
    with answer:
        yield answer


def body_of(answer: http.client.HTTPResponse, size_bytes: int) -> Iterator[bytes]:
    """The body in chunks; raises TryAgain unless it has exactly so many bytes, in good time."""
    received, began_at = 0, time.monotonic()
    while received <= size_bytes and (chunk := read_some(answer)):
        received += len(chunk)
        if received <= size_bytes:
            yield chunk
        late_seconds = time.monotonic() - began_at - TIMEOUT_SECONDS
        if received < late_seconds * LEAST_BYTES_PER_SECOND:
            raise TryAgain("the object store sends too slowly")
    if received != size_bytes:
        raise TryAgain(f"the object store sent {received} bytes of {size_bytes}")


def read_some(answer: http.client.HTTPResponse) -> bytes:
    try:
        return answer.read1(CHUNK_BYTES)
    except (OSError, http.client.HTTPException) as error:
        raise TryAgain(f"the transfer broke off ({type(error).__name__})") from None


def write_all(target: int, data: bytes, start: int | None) -> None:
    """Write at a place of the file, or at its end so far."""
    view = memoryview(data)
    while view:
        count = os.write(target, view) if start is None else os.pwrite(target, view, start)
        if not count:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        view, start = view[count:], None if start is None else start + count
