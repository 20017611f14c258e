"""Sweeps that begin while another one waits for the store leave it what it is at."""

import asyncio
import threading

import pytest

from loraplex.adapters_registry.errors import StoreUnavailable
from loraplex.adapters_registry.uploads.staging import Staging
from loraplex.adapters_registry.uploads.tasks import sweep_uploads
from loraplex.platform.jobs import JobContext
from tests.adapters_registry.uploads.conftest import Client

pytestmark = pytest.mark.usefixtures("base")


class HangingStore:
    """Whoever clears the staging area waits, as for a store that does not answer."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[str] = []
        self.is_asked = threading.Event()
        self.answers = threading.Event()
        self.has_failed = False
        clear = Staging.clear

        def hang(staging: Staging, key: str, store_upload_id: str | None) -> None:
            self.asked.append(key)
            self.is_asked.set()
            self.answers.wait(30)
            if self.has_failed:
                raise StoreUnavailable("it timed out")
            clear(staging, key, store_upload_id)

        monkeypatch.setattr(Staging, "clear", hang)


@pytest.fixture
def hanging(monkeypatch: pytest.MonkeyPatch) -> HangingStore:
    return HangingStore(monkeypatch)


async def test_a_sweep_beside_one_that_hangs_takes_nothing_of_it_and_ends(
    client: Client, hanging: HangingStore, job_context: JobContext
) -> None:
    view = await client.filled()
    hanging.answers.set()
    hanging.has_failed = True
    await client.abort(view.id)  # which clears, unless the store is down
    hanging.answers.clear()
    hanging.is_asked.clear()
    hanging.has_failed = False

    first = asyncio.ensure_future(sweep_uploads(job_context))
    await asyncio.to_thread(hanging.is_asked.wait, 30)
    asked = len(hanging.asked)
    async with asyncio.timeout(20):
        await sweep_uploads(job_context)
    assert len(hanging.asked) == asked, "the second has asked the store for nothing"
    hanging.answers.set()
    await first
    assert client.staged(view.id) == []


async def test_what_could_not_be_cleared_is_for_the_next_sweep(
    client: Client, hanging: HangingStore, job_context: JobContext
) -> None:
    view = await client.filled()
    hanging.answers.set()
    hanging.has_failed = True
    await client.abort(view.id)
    await sweep_uploads(job_context)
    assert client.staged(view.id)
    hanging.has_failed = False
    await sweep_uploads(job_context)
    assert client.staged(view.id) == []
