"""Fetches one object by presigned URL: bounded, verified while it streams, retried with care."""

import hashlib
import http.client
import os
import random
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlsplit

from loraplex.engine.protocol.identity import Digest

ATTEMPTS = 5
FIRST_WAIT_SECONDS = 0.1
LONGEST_WAIT_SECONDS = 2.0
TIMEOUT_SECONDS = 10.0
"""For connecting, and for each read."""
CHUNK_BYTES = 1024 * 1024
RETRIED_STATUS = frozenset({408, 429, 500, 502, 503, 504})


class FetchFailed(Exception):
    """The object could not be had; the message says why, without the URL (it is a credential)."""


class TryAgain(FetchFailed):
    """It might work in a moment."""


def fetch_blob(url: str, path: Path, digest: Digest, size_bytes: int) -> None:
    """Write the object to a new file at `path` and flush it to disk; blocks, retries included.

    The bytes have the digest and size asked for, or FetchFailed is raised and nothing is left.
    OSError of the local disk passes through.
    """
    for attempt in range(ATTEMPTS):
        try:
            fetch_once(url, path, digest, size_bytes)
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


def fetch_once(url: str, path: Path, digest: Digest, size_bytes: int) -> None:
    if urlsplit(url).scheme not in ("http", "https"):
        raise FetchFailed("its address is neither http nor https")
    try:
        answer = urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS)  # noqa: S310 # checked above
    except urllib.error.HTTPError as error:
        error.close()
        kind = TryAgain if error.code in RETRIED_STATUS else FetchFailed
        raise kind(f"the object store answered {error.code}") from None
    except (OSError, http.client.HTTPException) as error:
        raise TryAgain(f"the object store cannot be reached ({type(error).__name__})") from None
    with answer, path.open("wb") as file:
        copy_verified(answer, file, digest, size_bytes)


def copy_verified(
    answer: http.client.HTTPResponse, file: BinaryIO, digest: Digest, size_bytes: int
) -> None:
    hasher = hashlib.sha256()
    received = 0
    while chunk := read_some(answer):
        received += len(chunk)
        if received > size_bytes:
            break
        hasher.update(chunk)
        file.write(chunk)
    if received != size_bytes:
        raise TryAgain(f"the object store sent {received} bytes of {size_bytes}")
    if f"sha256:{hasher.hexdigest()}" != digest:
        raise TryAgain("the object store sent other bytes than were uploaded")
    sync(file)


def read_some(answer: http.client.HTTPResponse) -> bytes:
    try:
        return answer.read(CHUNK_BYTES)
    except (OSError, http.client.HTTPException) as error:
        raise TryAgain(f"the transfer broke off ({type(error).__name__})") from None


def sync(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())
