"""Equal content has one digest, other content another."""

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loraplex.engine.protocol.identity import (
    canonical_json,
    digest_of_bytes,
    digest_of_file,
    digest_of_manifest,
)

KEYS = st.text(max_size=5)
MANIFESTS = st.dictionaries(
    KEYS,
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=10),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
        max_leaves=10,
    ),
)


def reordered(value: Any) -> Any:
    """The same JSON value with its keys in another order."""
    if isinstance(value, dict):
        return {key: reordered(value[key]) for key in reversed(list(value))}
    return [reordered(item) for item in value] if isinstance(value, list) else value


@given(MANIFESTS)
def test_the_order_of_keys_does_not_change_the_digest(manifest: dict[str, Any]) -> None:
    assert digest_of_manifest(reordered(manifest)) == digest_of_manifest(manifest)


@given(MANIFESTS, MANIFESTS)
def test_two_manifests_have_one_digest_only_if_they_are_equal(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    is_equal = json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)

    assert (digest_of_manifest(one) == digest_of_manifest(other)) is is_equal


@given(MANIFESTS)
def test_the_canonical_form_reads_back_and_is_plain_ascii(manifest: dict[str, Any]) -> None:
    form = canonical_json(manifest)

    assert json.loads(form) == manifest
    assert form.isascii()


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_number_that_json_does_not_know_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical_json({"scale": value})


@given(st.binary(max_size=1000))
def test_a_file_has_the_digest_of_its_bytes(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "file"
    path.write_bytes(data)

    assert digest_of_file(path) == digest_of_bytes(data)
    assert digest_of_bytes(memoryview(data)) == f"sha256:{hashlib.sha256(data).hexdigest()}"
