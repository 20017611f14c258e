import pytest
from hypothesis import given
from hypothesis import strategies as st

from loraplex.adapters_registry.errors import InvalidAdapterName
from loraplex.adapters_registry.rollouts.errors import InvalidAliasName
from loraplex.adapters_registry.versions.names import (
    ModelName,
    canonical_name,
    check_adapter_name,
    check_alias_name,
    parse_model_name,
)
from loraplex.engine.protocol.identity import Digest

names = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,30}", fullmatch=True)
DIGEST = "sha256:" + "a1" * 32


tenants = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?", fullmatch=True)


@given(names, st.none() | tenants, st.none() | st.integers(1, 10**9 - 1))
def test_a_canonical_name_parses_to_its_parts(
    adapter: str, tenant: str | None, number: int | None
) -> None:
    check_adapter_name(adapter, [])
    text = adapter if tenant is None else canonical_name(tenant, adapter)
    if number is not None:
        text += f":v{number}"
    assert parse_model_name(text) == ModelName(tenant, adapter, number=number)


def test_a_digest_names_one_version() -> None:
    assert parse_model_name(f"acme/support@{DIGEST}") == ModelName(
        "acme", "support", digest=Digest(DIGEST)
    )


@given(names, st.from_regex(r"[a-z0-9][a-z0-9._-]{0,63}", fullmatch=True))
def test_what_stands_after_a_colon_is_an_alias_or_a_versions_number_never_both(
    adapter: str, suffix: str
) -> None:
    name = parse_model_name(f"{adapter}:{suffix}")
    is_number_like = suffix[0] == "v" and suffix[1:].isdigit()
    if is_number_like:
        assert name is None or name == ModelName(None, adapter, number=int(suffix[1:]))
        with pytest.raises(InvalidAliasName):
            check_alias_name(suffix)
    else:
        assert name == ModelName(None, adapter, alias=suffix)
        if suffix != "latest":
            check_alias_name(suffix)


@pytest.mark.parametrize(
    "name", ["", "v1", "v0", "v007", "latest", "Prod", "a/b", "a:b", "a@b", "-a", "a" * 65, "a\n"]
)
def test_what_could_be_mistaken_or_cannot_be_moved_is_no_alias(name: str) -> None:
    with pytest.raises(InvalidAliasName) as refused:
        check_alias_name(name)
    assert refused.value.field == "alias"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/support",
        "acme/",
        "a/b/c",
        "support:",
        "support:v0",
        "support:v01",
        "support:Prod",
        "support:V1",
        "support:v1:v2",
        "support:v9999999999",
        "support@",
        "support@sha256:abc",
        "support@" + DIGEST.upper(),
        "support:v1@" + DIGEST,
        "sup port",
        "support\n",
        "../support",
        ".hidden",
    ],
)
def test_what_cannot_be_a_model_name_parses_to_nothing(text: str) -> None:
    assert parse_model_name(text) is None


@pytest.mark.parametrize(
    "name", ["", "a/b", "a:b", "a@b", "a b", "-a", ".a", "a" * 97, "naïve", "a\n", "..", "a\x00"]
)
def test_a_name_that_could_mislead_is_no_adapter_name(name: str) -> None:
    with pytest.raises(InvalidAdapterName) as refused:
        check_adapter_name(name, [])
    assert refused.value.field == "name"


@pytest.mark.parametrize("name", ["smollm2-135m-instruct", "SmolLM2-135M-Instruct"])
def test_a_bases_name_is_no_adapter_name(name: str) -> None:
    with pytest.raises(InvalidAdapterName, match="base model"):
        check_adapter_name(name, ["smollm2-135m-instruct"])


@given(st.text(max_size=40))
def test_whatever_parses_has_an_acceptable_adapter_name(text: str) -> None:
    name = parse_model_name(text)
    if name is not None:
        check_adapter_name(name.adapter, [])
