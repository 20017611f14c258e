"""PostgreSQL of a folder: its password, its version, and what a root user gets."""

import os
import shutil
from pathlib import Path

import psycopg
import pytest

from loraplex.platform.embedded import postgres
from loraplex.platform.embedded.errors import (
    DataVersionMismatch,
    RootNotSupported,
    ServiceUnavailable,
)
from loraplex.platform.embedded.ports import free_port
from loraplex.platform.embedded.postgres import Postgres
from loraplex.platform.embedded.processes import running


def test_only_the_password_opens_it_and_only_on_the_loopback_address(tmp_path: Path) -> None:
    server = Postgres(tmp_path / "postgres", free_port(), durable=False)
    with running(server, tmp_path):
        with psycopg.connect(server.superuser_url) as connection:
            shown = connection.execute("SHOW listen_addresses").fetchone()
            method = connection.execute("SELECT rolpassword FROM pg_authid LIMIT 1").fetchone()
        assert shown == ("127.0.0.1",)
        assert method is not None
        wrong = server.superuser_url.replace(server.password, "wrong")
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            psycopg.connect(wrong)


def test_data_of_another_major_version_is_refused_untouched(tmp_path: Path) -> None:
    server = Postgres(tmp_path / "postgres", free_port())
    server.data_dir.mkdir(parents=True)
    (server.data_dir / "PG_VERSION").write_text("16\n")
    with pytest.raises(DataVersionMismatch, match="made by PostgreSQL 16, this is 18"):
        server.prepare()
    assert [path.name for path in server.data_dir.iterdir()] == ["PG_VERSION"]


def test_a_start_that_was_cut_short_begins_again(tmp_path: Path) -> None:
    server = Postgres(tmp_path / "postgres", free_port(), durable=False)
    (server.folder / ".initdb-cut-short" / "data").mkdir(parents=True)
    with running(server, tmp_path), psycopg.connect(server.superuser_url) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_server_that_cannot_start_says_why(tmp_path: Path) -> None:
    server = Postgres(tmp_path / "postgres", free_port(), durable=False)
    server.prepare()
    (server.data_dir / "postgresql.conf").write_text("no_such_setting = 1\n")
    with (
        pytest.raises(ServiceUnavailable, match="no_such_setting"),
        running(server, tmp_path / "logs"),
    ):
        pass


def test_where_root_gets_no_user_namespace_the_message_tells_the_ways_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda _: "/bin/false")
    with pytest.raises(RootNotSupported, match="ordinary user, or set LORAPLEX_DATABASE_URL"):
        postgres.unprivileged_wrapper()


def test_an_ordinary_user_needs_no_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert postgres.unprivileged_wrapper() == ()
