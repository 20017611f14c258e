"""The broker: nobody without the password, and a probe that means it."""

from dataclasses import replace
from pathlib import Path

import pytest
import redis

from loraplex.platform.embedded.ports import free_port
from loraplex.platform.embedded.processes import NotReady, running
from loraplex.platform.embedded.valkey import Valkey


def test_nobody_gets_in_without_the_password(tmp_path: Path) -> None:
    server = Valkey(tmp_path / "valkey", free_port())
    stranger = replace(server, folder=tmp_path / "stranger")
    with running(server, tmp_path):
        with redis.Redis.from_url(server.url) as client:
            assert client.ping()
        anonymous = redis.Redis(port=server.port)
        with anonymous, pytest.raises(redis.AuthenticationError):
            anonymous.ping()
        with pytest.raises(NotReady, match="WRONGPASS"):
            stranger.probe()
    with pytest.raises(NotReady):
        server.probe()
