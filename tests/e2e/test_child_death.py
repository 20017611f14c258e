"""`kill -9` of any one child during a stream: others go on, it comes back, nothing hangs."""

import http.client
import json
import threading
from pathlib import Path

import pytest

from tests.e2e.conftest import ADAPTERS, BASE, EXPECTED, Platform, start_platform, wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

CHILDREN = {
    "postgres": "postgres",
    "valkey": "valkey-server",
    "object store": "nanio",
    "controller": "loraplex.platform.cli controller",
    "jobs": "loraplex.platform.cli jobs",
    "worker": "loraplex.engine.worker",
    "gateway": "loraplex.platform.cli gateway",
}


class Stream(threading.Thread):
    """A long stream read in the background; `outcome` says how it ended."""

    def __init__(self, platform: Platform, model: str) -> None:
        super().__init__(daemon=True)
        self.platform, self.model = platform, model
        self.first_token = threading.Event()
        self.outcome = ""
        self.start()

    def run(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.platform.port, timeout=90)
        body = {
            "model": self.model,
            "messages": [{"role": "user", "content": "Tell me about the sea."}],
            "max_tokens": 64,
            "ignore_eos": True,
            "stream": True,
        }
        try:
            connection.request(
                "POST",
                "/v1/chat/completions",
                json.dumps(body),
                {
                    "Authorization": f"Bearer {self.platform.key('acme')}",
                    "Content-Type": "application/json",
                },
            )
            answer = connection.getresponse()
            if answer.status != 200:
                self.outcome = f"status {answer.status}"
                return
            for line in answer:
                if line.strip() == b"data: [DONE]":
                    self.outcome = "completed"
                    return
                if line.startswith(b"data:"):
                    self.first_token.set()
                    if "error" in json.loads(line[5:]):
                        self.outcome = "error event"
                        return
            self.outcome = "closed"
        except TimeoutError:
            self.outcome = "hung"
        except (OSError, http.client.HTTPException):
            self.outcome = "closed"
        finally:
            connection.close()
            self.first_token.set()


@pytest.fixture(scope="module")
def mortal(tmp_path_factory: pytest.TempPathFactory, smollm2_dir: Path):  # type: ignore[no-untyped-def]
    started = start_platform(tmp_path_factory.mktemp("mortal"), model_dir=smollm2_dir)
    yield started
    started.stop()


@pytest.mark.parametrize("kind", CHILDREN, ids=str)
def test_the_others_go_on_and_the_child_comes_back(mortal: Platform, kind: str) -> None:
    mortal.wait_until_ready(60)
    stream = Stream(mortal, "pirate")
    assert stream.first_token.wait(60)
    victims = mortal.children(CHILDREN[kind])
    assert victims, f"no child looks like {CHILDREN[kind]!r}"
    others = {
        other: {child.pid for child in mortal.children(pattern)}
        for other, pattern in CHILDREN.items()
        if other != kind
    }
    victim = min(victims, key=lambda child: child.create_time())
    victim.kill()

    stream.join(100)
    assert not stream.is_alive(), "the stream hangs"
    accepted = (
        {"completed", "error event", "closed"} if kind in ("worker", "gateway") else {"completed"}
    )
    assert stream.outcome in accepted, stream.outcome

    wait_for(
        f"a new {kind}",
        lambda: [c for c in mortal.children(CHILDREN[kind]) if c.pid != victim.pid],
        explain=lambda: mortal.log[-3000:],
    )
    mortal.wait_until_ready(90)
    for other, before in others.items():
        if other not in ("postgres", "jobs"):  # both fork children of their own that come and go
            assert before <= {child.pid for child in mortal.children(CHILDREN[other])}, other

    item = EXPECTED["adapters"]["pirate"][1]
    with mortal.client(mortal.key("acme")) as client:
        answer = client.post(
            "/v1/chat/completions",
            json={
                "model": "pirate",
                "messages": item["messages"],
                "max_tokens": EXPECTED["max_tokens"],
                "temperature": 0,
            },
        )
    assert answer.status_code == 200, answer.text
    assert answer.json()["choices"][0]["message"]["content"].startswith(item["safe_text"])


def test_uploads_survive_all_of_that(mortal: Platform) -> None:
    version = mortal.upload(mortal.key("globex"), "after-the-storm", ADAPTERS / "shout")
    assert version["status"] == "ready"
    with mortal.client(mortal.key("globex")) as client:
        answer = client.post(
            "/v1/completions", json={"model": "after-the-storm", "prompt": "Hi", "max_tokens": 2}
        )
        assert answer.status_code == 200, answer.text
        base = client.post("/v1/completions", json={"model": BASE, "prompt": "Hi", "max_tokens": 2})
        assert base.status_code == 200, base.text
