"""The whole worker process: real model, real adapters over HTTP, real sockets."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest

from loraplex.engine.protocol.adapter import AdapterRef
from loraplex.engine.protocol.config import EngineConfig
from loraplex.engine.protocol.generation import GenerationRequest
from loraplex.engine.protocol.sampling import SamplingParams
from loraplex.engine.protocol.workers import WorkerRegistration
from loraplex.engine.serving.identity import CurvePair
from tests.engine.conftest import BASE_NAME, FIXTURES
from tests.engine.driving import request
from tests.engine.worker.control_plane import ControlPlane
from tests.engine.worker.wire import WireGateway, a_request

KEYS = CurvePair.new()
MAX_OUTPUT_TOKENS = 12


@pytest.fixture(scope="module")
def files_url() -> Iterator[str]:
    """The adapters' files over HTTP, as a presigned URL gives them."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    handler = partial(Quiet, directory=str(FIXTURES / "adapters"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.01))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@contextmanager
def worker_process(
    model_dir: Path, cache_dir: Path, plane: ControlPlane
) -> Iterator[subprocess.Popen[bytes]]:
    config = EngineConfig(
        model_dir=str(model_dir),
        base_name=BASE_NAME,
        device="cpu",
        pool_bytes=256 * 1024 * 1024,
        adapter_cache_dir=str(cache_dir),
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "loraplex.engine.worker"],
        env={
            "PATH": os.environ["PATH"],
            "OMP_NUM_THREADS": "1",
            "LORAPLEX_WORKER_CONFIG": msgspec.json.encode(config).decode(),
            "LORAPLEX_WORKER_ID": "w1",
            "LORAPLEX_CONTROLLER_URL": f"http://127.0.0.1:{plane.port}",
            "LORAPLEX_WORKER_TOKEN": "token",
            "LORAPLEX_GATEWAY_CURVE_PUBLIC_KEY": KEYS.public.decode(),
        },
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


Running = tuple[subprocess.Popen[bytes], WorkerRegistration, ControlPlane]


@pytest.fixture(scope="module")
def running(model_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A worker process that has registered."""
    plane = ControlPlane()
    with (
        plane.listening(),
        worker_process(model_dir, tmp_path_factory.mktemp("cache"), plane) as process,
    ):
        _, _, body = plane.next_method("POST")
        yield process, msgspec.convert(body, WorkerRegistration), plane


def greedy(name: str, sample: dict[str, Any], adapter: AdapterRef | None) -> GenerationRequest:
    sampling = SamplingParams(max_tokens=MAX_OUTPUT_TOKENS, temperature=0.0)
    return request(name, sample["prompt_ids"], sampling, adapter)


def test_base_and_adapters_answer_through_the_wire_as_peft_does(
    running: Running, expected: dict[str, Any], adapters: dict[str, AdapterRef], files_url: str
) -> None:
    _, registration, _ = running
    samples = {"base": expected["base"][0]}
    samples |= {name: answers[0] for name, answers in expected["adapters"].items()}
    with WireGateway(registration, KEYS) as gateway:
        gateway.hello()
        for name, sample in samples.items():
            adapter = None
            if name != "base":
                url = f"{files_url}/{name}/adapter_model.safetensors"
                adapter = msgspec.structs.replace(adapters[name], url=url)
            gateway.submit(greedy(name, sample, adapter))
        answers = gateway.outputs_until_end(*samples)
    for name, sample in samples.items():
        tokens = [token for output in answers[name] for token in output.token_ids]
        assert tokens == sample["output_ids"][:MAX_OUTPUT_TOKENS]


def test_an_adapter_that_cannot_be_fetched_fails_its_request_alone(
    running: Running, expected: dict[str, Any], adapters: dict[str, AdapterRef], files_url: str
) -> None:
    _, registration, _ = running
    missing = msgspec.structs.replace(
        adapters["pirate"],
        url=f"{files_url}/nothing",
        namespace="another",  # or the copy that the test before has fetched would serve
    )
    with WireGateway(registration, KEYS) as gateway:
        gateway.hello()
        gateway.submit(greedy("missing", expected["base"][0], missing))
        gateway.submit(greedy("base", expected["base"][0], None))
        answers = gateway.outputs_until_end("missing", "base")
    failure = answers["missing"][-1].failure
    assert failure is not None
    assert failure.code == "adapter_unavailable"
    assert answers["base"][-1].failure is None


def test_the_base_model_keeps_its_heartbeat_through_a_long_prompt(running: Running) -> None:
    _, registration, _ = running
    with WireGateway(registration, KEYS) as gateway:
        gateway.hello()
        gateway.heartbeat()
        gateway.submit(a_request("long", [5] * 2000, max_tokens=1))
        pauses = []
        for _ in range(5):
            began_at = time.monotonic()
            gateway.heartbeat()
            pauses.append(time.monotonic() - began_at)
        assert max(pauses) < 2.0
        gateway.cancel("long")
        gateway.outputs_until_end("long")


def test_sigterm_ends_the_process_within_seconds(running: Running) -> None:
    process, registration, plane = running
    with WireGateway(registration, KEYS) as gateway:
        gateway.hello()
        gateway.submit(a_request("endless", [5] * 100, max_tokens=5000))
        gateway.heartbeat()
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=10) == 0
        failure = gateway.outputs_until_end("endless")["endless"][-1].failure
        assert failure is not None
        assert failure.code == "worker_lost"
    plane.next_method("DELETE")
