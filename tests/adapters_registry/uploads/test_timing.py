"""How long an upload takes does not tell whether another tenant has the same bytes."""

import os
import time
from pathlib import Path

import pytest

from loraplex.adapters_registry.uploads.files import CONFIG_NAME, WEIGHTS_NAME
from loraplex.adapters_registry.uploads.service import Uploads
from loraplex.platform.tenancy.principals import TenantPrincipal
from tests.adapters_registry.uploads.conftest import Client
from tests.timing import Timed, area, most, worlds

pytestmark = pytest.mark.usefixtures("base")

WEIGHTS_BYTES = 100_000


def fresh() -> dict[str, bytes]:
    return {CONFIG_NAME: b"{}", WEIGHTS_NAME: os.urandom(WEIGHTS_BYTES)}


async def test_completing_an_upload_does_not_tell(client: Client, other_client: Client) -> None:
    """Neither the answer of `complete` nor the time until the upload has ended."""
    answers, ends = [], []
    for is_known in worlds():
        files = fresh()
        await other_client.completed(files if is_known else fresh())
        view = await client.filled(files)
        began_at = time.perf_counter()
        await client.complete(view.id)
        answers.append(Timed(is_known, time.perf_counter() - began_at))
        assert await client.run_job(view.id)
        ends.append(Timed(is_known, time.perf_counter() - began_at))
    assert area(answers) <= most(answers)
    assert area(ends) <= most(ends)


async def test_a_form_does_not_tell(
    uploads: Uploads, client: Client, other_client: Client, tmp_path: Path
) -> None:
    path = tmp_path / "weights"

    async def submit(tenant: TenantPrincipal, files: dict[str, bytes]) -> float:
        path.write_bytes(files[WEIGHTS_NAME])
        began_at = time.perf_counter()
        await uploads.submit(tenant, "support", files[CONFIG_NAME], path)
        return time.perf_counter() - began_at

    samples = []
    for is_known in worlds():
        files = fresh()
        await submit(other_client.tenant, files if is_known else fresh())
        samples.append(Timed(is_known, await submit(client.tenant, files)))
    assert area(samples) <= most(samples)
