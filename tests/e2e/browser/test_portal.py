"""The portal in a real browser, against a real platform."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.conftest import ADAPTERS, BASE, EXPECTED, ROOT, Platform

HERE = Path(__file__).parent
CHROMIUM = shutil.which("chromium")
NODE = shutil.which("node")
JOURNEY_SECONDS = 240

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.browser,
    pytest.mark.timeout(JOURNEY_SECONDS + 60),
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install chromium"),
    pytest.mark.skipif(NODE is None, reason="needs Node 20 or newer"),
    pytest.mark.skipif(
        not (ROOT / "web" / "node_modules" / "playwright-core").is_dir(),
        reason="needs the web app's packages: make web",
    ),
]

Journey = Callable[..., None]


@pytest.fixture
def travel(platform: Platform, tmp_path: Path) -> Journey:
    """Run a journey, a script beside this module; its output is the failure's message."""
    screenshots = Path(os.environ.get("LORAPLEX_SCREENSHOTS", tmp_path / "screenshots"))
    screenshots.mkdir(parents=True, exist_ok=True)

    def travel_once(name: str, **settings: object) -> None:
        told = {
            "base_url": platform.base_url,
            "chromium": CHROMIUM,
            "screenshots": str(screenshots.resolve()),
        }
        ended = subprocess.run(
            [str(NODE), str(HERE / f"{name}.mjs")],
            env={**os.environ, "PORTAL_JOURNEY": json.dumps(told | settings)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=JOURNEY_SECONDS,
        )
        assert ended.returncode == 0, f"{ended.stdout}\nScreenshots lie in {screenshots}"

    return travel_once


def test_a_tenant_uploads_reads_the_verdict_and_chats(
    platform: Platform, travel: Journey, tmp_path: Path
) -> None:
    good = Path(shutil.copytree(ADAPTERS / "shout", tmp_path / "portal-shout"))
    broken = Path(shutil.copytree(ADAPTERS / "shout", tmp_path / "portal-broken"))
    config = json.loads((broken / "adapter_config.json").read_text())
    (broken / "adapter_config.json").write_text(json.dumps(config | {"r": 0}))
    case = EXPECTED["adapters"]["shout"][0]

    travel(
        "tenant",
        key=platform.key("acme"),
        tenant="acme",
        own_adapters=platform.credentials["tenants"]["acme"]["adapters"],
        good_folder=str(good),
        good_name=good.name,
        second_folder=str(ADAPTERS / "bullets"),
        broken_files=[str(file) for file in sorted(broken.iterdir())],
        broken_name=broken.name,
        broken_reason=r"\br\b",
        question=case["messages"][0]["content"],
        answer=case["text"],
        base=BASE,
        max_tokens=EXPECTED["max_tokens"],
    )


def test_a_tenant_makes_a_key_calls_with_it_sees_what_it_used_and_revokes_it(
    platform: Platform, travel: Journey
) -> None:
    model = platform.credentials["tenants"]["acme"]["adapters"][0]
    travel("keys", key=platform.key("acme"), model=model)


def test_people_follow_their_links_and_sign_in_by_password(
    platform: Platform, travel: Journey
) -> None:
    email, tenant = "ada@example.com", "portal-initech"
    with platform.client(platform.admin_key) as operator:
        operator.post("/api/v1/admin/tenants", json={"name": tenant}).raise_for_status()

        def link(to: str, role: str) -> str:
            answer = operator.post(
                f"/api/v1/admin/tenants/{to}/members", json={"email": email, "role": role}
            )
            answer.raise_for_status()
            told: str = answer.json()["link"]
            return told

        first_link, second_link = link(tenant, "owner"), link("acme", "viewer")
    admin = platform.credentials["admin"]
    travel(
        "people",
        admin_link=admin["link"],
        admin_email=admin["email"],
        email=email,
        first_tenant=tenant,
        first_link=first_link,
        second_tenant="acme",
        second_link=second_link,
        second_adapter=platform.credentials["tenants"]["acme"]["adapters"][0],
    )


def test_an_operator_sees_the_workers_and_no_tenants_pages(
    platform: Platform, travel: Journey
) -> None:
    workers = [worker["id"] for worker in platform.workers()]
    assert workers
    travel("operator", key=platform.admin_key, workers=workers, tenant="acme")
