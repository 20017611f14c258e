"""What a person reads at the end of a start."""

import json
import shlex
from pathlib import Path

import pytest

from loraplex.platform.embedded.summary import summary

CREDENTIALS = {
    "base_url": "http://127.0.0.1:8000",
    "admin": {"api_key": "lpxadmin_secret"},
    "tenants": {
        "acme": {"api_key": "lpx_a", "adapters": ["pirate", "json"]},
        "globex": {"api_key": "lpx_g", "adapters": ["shout", "bullets"]},
    },
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "credentials.json"
    path.write_text(json.dumps(CREDENTIALS))
    return path


def test_the_admin_key_is_shown_once(file: Path) -> None:
    first = summary("http://127.0.0.1:8000", file, shows_admin_key=True)
    later = summary("http://127.0.0.1:8000", file, shows_admin_key=False)
    assert "lpxadmin_secret" in first
    assert "lpxadmin_secret" not in later
    assert str(file) in later


def test_the_first_admin_is_told_where_to_choose_a_password(file: Path) -> None:
    link = "http://127.0.0.1:8000/welcome#i.token"
    admin = {"api_key": "lpxadmin_secret", "email": "admin@localhost", "link": link}
    file.write_text(json.dumps(CREDENTIALS | {"admin": admin}))
    assert link in summary("http://127.0.0.1:8000", file, shows_admin_key=False)


def test_two_lines_can_be_pasted_into_a_shell(file: Path) -> None:
    text = summary("http://127.0.0.1:8000", file, shows_admin_key=False)
    lines = [shlex.split(line) for line in text.splitlines() if line.startswith("curl ")]
    assert [line[line.index("-H") + 1] for line in lines] == [
        "Authorization: Bearer lpx_a",
        "Authorization: Bearer lpx_g",
    ]
    bodies = [json.loads(line[line.index("-d") + 1]) for line in lines]
    assert [body["model"] for body in bodies] == ["pirate", "shout"]


def test_without_credentials_there_is_still_an_address(tmp_path: Path) -> None:
    text = summary("http://127.0.0.1:8000", tmp_path / "none", shows_admin_key=True)
    assert "http://127.0.0.1:8000" in text
    assert "curl" not in text
