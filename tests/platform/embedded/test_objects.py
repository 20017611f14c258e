"""The probe of the object store: signed, so that a wrong credential is no answer."""

from dataclasses import replace
from pathlib import Path

import pytest

from loraplex.platform.embedded.objects import Objects
from loraplex.platform.embedded.ports import free_port
from loraplex.platform.embedded.processes import NotReady, running


def test_a_wrong_credential_and_a_dead_server_are_not_ready(tmp_path: Path) -> None:
    server = Objects(tmp_path / "objects", free_port())
    stranger = replace(server, folder=tmp_path / "stranger")
    with running(server, tmp_path):
        server.probe()
        with pytest.raises(NotReady, match="403"):
            stranger.probe()
    with pytest.raises(NotReady):
        server.probe()
