"""A process without HTTP tells its metrics; so does the controller's internal listener."""

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from loraplex.platform.backlog import look
from loraplex.platform.database.outbox import enqueue
from loraplex.platform.database.sessions import Database
from loraplex.platform.job_counts import counted
from loraplex.platform.metrics_listener import serve_metrics
from loraplex.platform.pools.listener import create_listener
from loraplex.platform.secrets import SecretKeys


def values(text: str) -> dict[str, float]:
    """Every sample, by its name and its labels' values."""
    return {
        " ".join((sample.name, *sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_jobs_are_told_by_name_and_end() -> None:
    server = serve_metrics("127.0.0.1", 0)
    try:
        url = f"http://127.0.0.1:{server.server_port}"
        with counted("test.good"):
            pass
        with pytest.raises(ZeroDivisionError), counted("test.bad"):
            raise ZeroDivisionError
        told = values(httpx.get(f"{url}/metrics").raise_for_status().text)
        assert told["loraplex_jobs_total succeeded test.good"] == 1
        assert told["loraplex_jobs_total failed test.bad"] == 1
        assert told["loraplex_job_seconds_count test.bad"] == 1
        assert httpx.get(f"{url}/").status_code == 404
    finally:
        server.shutdown()
        server.server_close()


async def test_the_controller_tells_what_waits_in_postgres(system_database: Database) -> None:
    async with system_database.unit_of_work() as session:
        await enqueue(session, "test.nobody", {})
    await look(system_database)
    listener = create_listener(system_database, SecretKeys(["k" * 32]))
    transport = httpx.ASGITransport(listener)
    async with httpx.AsyncClient(transport=transport, base_url="http://internal") as client:
        told = values((await client.get("/metrics")).raise_for_status().text)
    assert told["loraplex_outbox_messages"] >= 1
    assert told["loraplex_outbox_oldest_seconds"] > 0
    assert told["loraplex_backlog_looked_at_seconds"] > 1e9
    assert told["loraplex_webhook_deliveries_due"] >= 0
    assert told["loraplex_reservations_lapsed"] >= 0
