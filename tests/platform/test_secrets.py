import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import zmq
from hypothesis import given
from hypothesis import strategies as st

from loraplex.platform.secrets import SealBroken, SecretKeys, WeakSecretKey
from loraplex.platform.settings import Settings

OLD, NEW = "o" * 32, "n" * 32


def settings(data_dir: Path, secret_key: str | None = None) -> Settings:
    return Settings.model_validate({"data_dir": data_dir, "secret_key": secret_key})


def test_a_secret_is_made_once_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    first = SecretKeys.from_settings(settings(data_dir))
    second = SecretKeys.from_settings(settings(data_dir))
    assert first.derive("any") == second.derive("any")
    file = data_dir / "secret_key"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert list(data_dir.iterdir()) == [file]


def test_processes_that_start_at_once_agree_on_one_secret(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as threads:
        made = threads.map(SecretKeys.from_settings, [settings(tmp_path)] * 8)
        assert len({keys.derive("any") for keys in made}) == 1


def test_another_data_directory_has_another_secret(tmp_path: Path) -> None:
    one, other = (SecretKeys.from_settings(settings(tmp_path / name)) for name in "ab")
    assert one.derive("any") != other.derive("any")


def test_the_setting_wins_over_the_file(tmp_path: Path) -> None:
    SecretKeys.from_settings(settings(tmp_path))
    given_keys = SecretKeys.from_settings(settings(tmp_path, f"{NEW}, {OLD},"))
    assert given_keys.derive("any") == SecretKeys([NEW]).derive("any")


@given(data=st.binary(max_size=100), purpose=st.sampled_from(["api-key", "web-session"]))
def test_the_first_key_signs_and_all_verify(data: bytes, purpose: str) -> None:
    old, rotated, new = SecretKeys([OLD]), SecretKeys([NEW, OLD]), SecretKeys([NEW])
    assert rotated.mac(purpose, data) == new.mac(purpose, data)
    assert rotated.verify(purpose, data, old.mac(purpose, data))
    assert rotated.verify(purpose, data, new.mac(purpose, data))
    assert not new.verify(purpose, data, old.mac(purpose, data))
    assert not rotated.verify("another", data, old.mac(purpose, data))
    assert not rotated.verify(purpose, data + b"!", old.mac(purpose, data))


@pytest.mark.parametrize("text", ["", " , ", "short", f"{NEW},short"])
def test_a_weak_secret_is_refused_without_being_shown(tmp_path: Path, text: str) -> None:
    with pytest.raises(WeakSecretKey) as caught:
        SecretKeys.from_settings(settings(tmp_path, text))
    assert "short" not in caught.value.message.removesuffix("shorter")
    assert caught.value.value is None


def test_a_secret_is_not_shown_by_its_object() -> None:
    assert OLD not in repr(SecretKeys([OLD]))


def test_gateways_share_one_curve_key_pair() -> None:
    one, other = (SecretKeys([OLD]).gateway_curve() for _ in range(2))
    assert one == other
    assert zmq.curve_public(one.secret) == one.public
    assert SecretKeys([NEW]).gateway_curve() != one


@given(st.binary(max_size=200))
def test_what_is_encrypted_opens_under_every_key_that_was_first(data: bytes) -> None:
    old, both = SecretKeys([OLD]), SecretKeys([NEW, OLD])
    assert both.decrypt("imports", old.encrypt("imports", data)) == data
    assert both.decrypt("imports", both.encrypt("imports", data)) == data
    assert len(data) < 4 or data not in old.encrypt("imports", data)


def test_what_is_encrypted_for_one_purpose_opens_for_no_other() -> None:
    keys = SecretKeys([OLD])
    sealed = keys.encrypt("imports", b"credentials")
    for opener, purpose in ((keys, "webhooks"), (SecretKeys([NEW]), "imports")):
        with pytest.raises(SealBroken):
            opener.decrypt(purpose, sealed)
    with pytest.raises(SealBroken):
        keys.decrypt("imports", sealed[:-4] + b"AAAA")
