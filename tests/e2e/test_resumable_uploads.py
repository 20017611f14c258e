"""A large upload that is interrupted at 60 %, by its client's death and then by the gateway's."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import numpy as np
import psutil
import pytest
from safetensors.numpy import save_file

from tests.e2e.conftest import ADAPTERS, Platform, wait_for
from tests.soak import SOAK

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

WIDTHS = {
    "self_attn.q_proj": (576, 576),
    "self_attn.k_proj": (576, 192),
    "self_attn.v_proj": (576, 192),
    "self_attn.o_proj": (576, 576),
    "mlp.gate_proj": (576, 1536),
    "mlp.up_proj": (576, 1536),
    "mlp.down_proj": (1536, 576),
}
LAYERS, PARALLEL_PARTS = 30, 4


def large_adapter(folder: Path, rank: int) -> int:
    """An adapter of every linear of the base, and the bytes of its weights: 1.2 MB a rank."""
    config = json.loads((ADAPTERS / "shout" / "adapter_config.json").read_text())
    names = [name.split(".")[1] for name in WIDTHS]
    config |= {"r": rank, "lora_alpha": rank, "target_modules": names, "rank_pattern": {}}
    (folder / "adapter_config.json").write_text(json.dumps(config))
    random = np.random.default_rng(rank)
    tensors = {}
    for layer in range(LAYERS):
        for module, (width, height) in WIDTHS.items():
            start = f"base_model.model.model.layers.{layer}.{module}"
            tensors[f"{start}.lora_A.weight"] = random.normal(size=(rank, width)).astype("f4")
            tensors[f"{start}.lora_B.weight"] = random.normal(size=(height, rank)).astype("f4")
    weights = folder / "adapter_model.safetensors"
    save_file(tensors, weights)
    return weights.stat().st_size


class Line:
    """A line to the platform that falls silent once so many bytes have gone through it."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.sent_parts: list[str] = []
        self.silent = threading.Event()
        self._lock = threading.Lock()
        self._left_bytes = 0
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.listener.getsockname()[1]}"

    def allow(self, size_bytes: int) -> None:
        """Let so many more bytes through; connections that fell silent are cut."""
        with self._lock:
            cut, self._open, self._left_bytes = self._open, [], size_bytes
            self.silent.clear()
        for connection in cut:
            with suppress(OSError):  # it may be closed already
                connection.shutdown(socket.SHUT_RDWR)  # wakes whoever reads; close alone would not
            connection.close()

    def take_sent_parts(self) -> set[str]:
        with self._lock:
            taken, self.sent_parts = set(self.sent_parts), []
            return taken

    def _accept(self) -> None:
        while True:
            client, _ = self.listener.accept()
            try:
                server = socket.create_connection(("127.0.0.1", self.port))
            except OSError:
                client.close()
                continue
            with self._lock:
                self._open += [client, server]
            for pump in (self._forward, self._answer):
                threading.Thread(target=pump, args=(client, server), daemon=True).start()

    def _forward(self, client: socket.socket, server: socket.socket) -> None:
        try:
            while data := client.recv(65536):
                with self._lock:
                    found = re.findall(rb"PUT (/api/v1/uploads/\S+) HTTP", data)
                    self.sent_parts += [path.decode() for path in found]
                    self._left_bytes -= len(data)
                    if self._left_bytes < 0:
                        self.silent.set()
                        return
                server.sendall(data)
        except OSError:
            return
        finally:
            if not self.silent.is_set():
                server.close()

    def _answer(self, client: socket.socket, server: socket.socket) -> None:
        try:
            while data := server.recv(65536):
                client.sendall(data)
        except OSError:
            pass
        finally:
            client.close()


def push(platform: Platform, line: Line, folder: Path, name: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "loraplex.platform.cli", "adapter", "push", folder, "--name", name],
        env=os.environ | {"LORAPLEX_API_URL": line.url, "LORAPLEX_API_KEY": platform.key("acme")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def received(platform: Platform, name: str) -> set[str]:
    """The paths of the parts that have come."""
    with platform.client(platform.key("acme")) as client:
        (upload,) = client.get("/api/v1/uploads", params={"adapter": name}).json()["data"]
    return {
        f"/api/v1/uploads/{upload['id']}/files/{file['name']}/parts/{number}"
        for file in upload["files"]
        for number in file["parts_received"]
    }


def test_a_large_upload_survives_its_client_and_its_gateway(
    platform: Platform, tmp_path: Path
) -> None:
    rank = 165 if SOAK else 48
    size_bytes = large_adapter(tmp_path, rank)
    name = f"large-{rank}"
    line = Line(platform.port)

    line.allow(size_bytes * 6 // 10)
    first = push(platform, line, tmp_path, name)
    assert line.silent.wait(300), "the client sends 60 %"
    first.send_signal(signal.SIGKILL)
    first.communicate()
    line.take_sent_parts()
    finished = received(platform, name)
    assert finished

    line.allow(size_bytes // 10)  # into the middle of the next parts
    second = push(platform, line, tmp_path, name)
    assert line.silent.wait(300), "the second client goes on"
    assert not line.take_sent_parts() & finished
    finished = received(platform, name)
    (gateway,) = platform.children("loraplex.platform.cli gateway")
    gateway.send_signal(signal.SIGKILL)
    wait_for("the gateway's end", lambda: not gateway.is_running() or dead(gateway))
    line.allow(10 * size_bytes)
    told, _ = second.communicate(timeout=300)
    assert second.returncode == 0, told
    assert f"acme/{name}:v1 is ready (rank {rank}" in told
    assert not line.take_sent_parts() & finished
    platform.wait_until_ready()


def dead(process: psutil.Process) -> bool:
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True
