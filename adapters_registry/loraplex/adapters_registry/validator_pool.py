"""Keeps validator processes between uploads: starting one takes twenty times as long as a check."""

import atexit
import os
import selectors
import subprocess
import sys
import tempfile
import threading
import time
from typing import IO

from loraplex.adapters_registry.validator import LENGTH_BYTES, MAX_UPLOADS, framed

COMMAND = ("-m", "loraplex.adapters_registry.validator")
INHERITED = ("PATH", "LANG", "LC_ALL", "TMPDIR", "PYTHONPATH", "VIRTUAL_ENV")
MAX_IDLE = 2
LAST_WORDS = 500
ENDING_SECONDS = 5.0
"""For a process to be gone once its output has ended, or once it was killed."""


class ValidatorEnded(RuntimeError):
    """The process ended, by itself or by a signal (`status` below 0), before it had answered."""

    def __init__(self, status: int, last_words: str) -> None:
        super().__init__(f"ended with {status}: {last_words}")
        self.status = status


class ValidatorSilent(RuntimeError):
    """No answer came in time; the process has been killed."""


class ValidatorProcess:
    """One process. `is_fresh` until it has answered once. Raises OSError where none starts."""

    def __init__(self) -> None:
        self.answers = 0
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  (closed with the process)
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", *COMMAND],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                env=environment(),
                bufsize=0,
            )
        except OSError:
            self._errors.close()
            raise

    @property
    def is_fresh(self) -> bool:
        return self.answers == 0

    @property
    def process_id(self) -> int:
        return self._process.pid

    def poll(self) -> int | None:
        """Its status, once it has ended."""
        return self._process.poll()

    def ask(self, message: bytes, seconds: float) -> bytes:
        """The answer to one message. After an error the process is gone.

        Raises ValidatorEnded or ValidatorSilent.
        """
        deadline = time.monotonic() + seconds
        self._write(framed(message), deadline)
        length = int.from_bytes(self._read(LENGTH_BYTES, deadline), "little")
        answer = self._read(length, deadline)
        self.answers += 1
        return answer

    def close(self) -> None:
        """End it, if it has not ended; a process that answers is not needed for that."""
        self._process.kill()
        self._process.wait(ENDING_SECONDS)
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            if stream is not None:
                stream.close()

    def _write(self, data: bytes, deadline: float) -> None:
        assert self._process.stdin is not None, "it was made with a pipe"
        os.set_blocking(self._process.stdin.fileno(), False)
        while data:
            self._wait(self._process.stdin, selectors.EVENT_WRITE, deadline)
            try:
                data = data[os.write(self._process.stdin.fileno(), data) :]
            except BrokenPipeError:
                raise self._ended() from None

    def _read(self, count: int, deadline: float) -> bytes:
        assert self._process.stdout is not None, "it was made with a pipe"
        found = bytearray()
        while len(found) < count:
            self._wait(self._process.stdout, selectors.EVENT_READ, deadline)
            data = os.read(self._process.stdout.fileno(), count - len(found))
            if not data:
                raise self._ended()
            found += data
        return bytes(found)

    def _wait(self, stream: IO[bytes], event: int, deadline: float) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(stream, event)
            if not selector.select(max(0.0, deadline - time.monotonic())):
                self.close()
                raise ValidatorSilent

    def _ended(self) -> ValidatorEnded:
        try:
            status = self._process.wait(ENDING_SECONDS)
        except subprocess.TimeoutExpired:
            status = 0  # its output has ended and it has not: nobody's verdict
        self._errors.seek(0)
        last_words = self._errors.read().decode(errors="replace").strip()[-LAST_WORDS:]
        self.close()
        return ValidatorEnded(status, last_words)


class ValidatorPool:
    """Processes that wait for uploads, by the memory they may take. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: dict[int, list[ValidatorProcess]] = {}

    def take(self, memory_bytes: int, *, is_fresh: bool) -> ValidatorProcess:
        """A process nobody else uses; one that has never checked anything where it must be fresh.

        Raises OSError where none can be started.
        """
        with self._lock:
            idle = self._idle.setdefault(memory_bytes, [])
            if idle and not is_fresh:
                return idle.pop()
        return ValidatorProcess()

    def give_back(self, process: ValidatorProcess, memory_bytes: int) -> None:
        """Keep a process that has answered, unless it has checked enough."""
        with self._lock:
            idle = self._idle.setdefault(memory_bytes, [])
            if process.answers < MAX_UPLOADS and len(idle) < MAX_IDLE:
                idle.append(process)
                return
        process.close()

    def close(self) -> None:
        with self._lock:
            idle = [process for kept in self._idle.values() for process in kept]
            self._idle.clear()
        for process in idle:
            process.close()


def environment() -> dict[str, str]:
    """No secrets, and one thread: NumPy's would count against the memory limit."""
    kept = {name: os.environ[name] for name in INHERITED if name in os.environ}
    return kept | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


POOL = ValidatorPool()
atexit.register(POOL.close)
