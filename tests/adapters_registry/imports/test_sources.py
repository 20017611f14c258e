import pytest
from hypothesis import given
from hypothesis import strategies as st

from loraplex.adapters_registry.imports.errors import InvalidSource
from loraplex.adapters_registry.imports.places import place_of, signed_url
from loraplex.adapters_registry.imports.sources import (
    ARCHIVE_FILE,
    CONFIG_FILE,
    WEIGHTS_FILE,
    ArchiveSource,
    HttpsSource,
    HubSource,
    S3Source,
    Source,
    decode,
    encode,
    parse_s3_url,
    source_at,
)
from loraplex.engine.protocol.errors import DomainError
from loraplex.platform.outbound.errors import AddressInvalid, AddressNotPublic
from loraplex.platform.outbound.rules import OutboundRules

RULES = OutboundRules()
HUB = "https://hub.example"
SECRET = "s3cr3t-" + "x" * 20
KEYS = {"access_key_id": f"id-{SECRET}", "secret_access_key": SECRET, "session_token": SECRET}
WITH_SECRETS: list[Source] = [
    S3Source("bucket", "folder", endpoint="https://store.example", **KEYS),
    HttpsSource(f"https://a.example/c?sig={SECRET}", f"https://a.example/w?sig={SECRET}#{SECRET}"),
    ArchiveSource(f"https://a.example/x.zip?sig={SECRET}"),
    HubSource("acme/lora", token=SECRET),
]


@pytest.mark.parametrize("source", WITH_SECRETS, ids=lambda source: type(source).__name__)
def test_a_source_shows_where_it_is_and_no_secret(source: Source) -> None:
    source.check(RULES)
    assert SECRET not in str(source.shown())
    place = place_of(source, source.file_names[-1], HUB)
    assert SECRET not in place.what
    assert SECRET not in repr(place)
    assert decode(encode(source)) == source


@given(st.sampled_from(WITH_SECRETS), st.text(max_size=30))
def test_whatever_is_refused_of_a_source_repeats_no_secret(source: Source, text: str) -> None:
    spoiled_by_kind: dict[type[Source], list[Source]] = {
        S3Source: [
            S3Source(text, "", **KEYS),
            S3Source("bucket", text, **KEYS),
            S3Source("bucket", "", region=text, **KEYS),
            S3Source("bucket", "", endpoint=text, **KEYS),
        ],
        HttpsSource: [HttpsSource(text, f"https://a.example/?{SECRET}")],
        ArchiveSource: [ArchiveSource(f"{text}?{SECRET}")],
        HubSource: [
            HubSource(text, token=SECRET),
            HubSource("acme/lora", text, token=SECRET),
            HubSource("acme/lora", folder=text, token=SECRET),
        ],
    }
    for one in spoiled_by_kind[type(source)]:
        try:
            one.check(RULES)
        except DomainError as error:
            assert SECRET not in f"{error.message}{error.field}{error.rule}{error.value}"


@pytest.mark.parametrize(
    ("source", "field"),
    [
        (S3Source("UPPER", ""), "url"),
        (S3Source("a..b", ""), "url"),
        (S3Source("evil.example/x", ""), "url"),
        (S3Source("bucket", "../other"), "url"),
        (S3Source("bucket", "a//b"), "url"),
        (S3Source("bucket", "a\nb"), "url"),
        (S3Source("bucket", "x" * 901), "url"),
        (S3Source("bucket", "", region="evil.example/"), "region"),
        (S3Source("bucket", "", access_key_id="id"), "secret_access_key"),
        (S3Source("bucket", "", secret_access_key="key"), "access_key_id"),
        (S3Source("bucket", "", session_token="token"), "session_token"),
        (S3Source("bucket", "", endpoint="https://store.example/path"), "endpoint"),
        (S3Source("bucket", "", endpoint="https://store.example/?a=b"), "endpoint"),
        (HubSource("no-owner"), "repository"),
        (HubSource("a/b/c"), "repository"),
        (HubSource("../etc"), "repository"),
        (HubSource("a/b", "main/../x"), "revision"),
        (HubSource("a/b", "?x"), "revision"),
        (HubSource("a/b", folder="../x"), "folder"),
        (HubSource("a/b", token="two\nlines"), "token"),
    ],
)
def test_a_part_that_is_not_what_it_should_be_is_named(source: Source, field: str) -> None:
    with pytest.raises(InvalidSource) as caught:
        source.check(RULES)
    assert caught.value.field == f"source.{field}"


def test_addresses_of_sources_obey_the_operators_rules() -> None:
    with pytest.raises(AddressNotPublic):
        S3Source("bucket", "", endpoint="https://169.254.169.254").check(RULES)
    with pytest.raises(AddressInvalid):
        HttpsSource("https://a.example/c", "http://a.example/w").check(RULES)


def test_files_of_s3_are_at_signed_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "https://evil.example")
    source = S3Source("my-bucket", "a b/ü", region="eu-central-1", **KEYS)
    url = place_of(source, CONFIG_FILE, HUB).url
    assert url.startswith(
        "https://my-bucket.s3.eu-central-1.amazonaws.com/a%20b/%C3%BC/adapter_config.json?"
    )
    assert "X-Amz-Signature=" in url and "X-Amz-Security-Token=" in url
    dotted = S3Source("my.bucket", "", region="eu-central-1")
    assert place_of(dotted, CONFIG_FILE, HUB).url == (
        "https://s3.eu-central-1.amazonaws.com/my.bucket/adapter_config.json"
    )
    own = S3Source("my-bucket", "x/", endpoint="https://store.example:9000")
    assert place_of(own, WEIGHTS_FILE, HUB).url == (
        "https://store.example:9000/my-bucket/x/adapter_model.safetensors"
    )


def test_our_own_credentials_never_sign_for_a_tenant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "OURS")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "OURS")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "OURS")
    assert "OURS" not in signed_url(S3Source("bucket", ""), "key")
    keys = {"access_key_id": "THEIRS", "secret_access_key": "THEIRS"}
    theirs = signed_url(S3Source("bucket", "", **keys), "key")
    assert "THEIRS" in theirs
    assert "OURS" not in theirs


def test_files_of_the_hub_are_at_resolve_addresses() -> None:
    source = HubSource("acme/lora", "refs/pr/1", "checkpoints/last", token="hf_x")
    place = place_of(source, CONFIG_FILE, HUB)
    assert place.url == (
        f"{HUB}/acme/lora/resolve/refs%2Fpr%2F1/checkpoints/last/adapter_config.json"
    )
    assert place.credentials == {"authorization": "Bearer hf_x"}
    assert place.what == "acme/lora@refs/pr/1/checkpoints/last/adapter_config.json"


def test_an_s3_url_is_a_bucket_and_a_folder() -> None:
    assert parse_s3_url("s3://bucket/a/b/") == ("bucket", "a/b/")
    assert parse_s3_url("s3://bucket") == ("bucket", "")
    with pytest.raises(InvalidSource):
        parse_s3_url("https://bucket/a")


def test_a_folders_address_ends_in_a_slash() -> None:
    assert source_at("https://a.example/x/y/") == HttpsSource(
        "https://a.example/x/y/adapter_config.json",
        "https://a.example/x/y/adapter_model.safetensors",
    )
    for url in ("https://a.example/x/y", "https://a.example/x/?sig=1"):
        with pytest.raises(InvalidSource):
            source_at(url)


def test_an_archive_is_known_by_how_its_path_ends() -> None:
    for url in ("https://a.example/x.zip?sig=1", "https://a.example/x.tar.gz"):
        assert source_at(url) == ArchiveSource(url)
        assert place_of(source_at(url), ARCHIVE_FILE, HUB).url == url
    packed = S3Source("bucket", "adapters/mine.tar.gz", endpoint="https://store.example")
    assert packed.file_names == (ARCHIVE_FILE,)
    assert place_of(packed, ARCHIVE_FILE, HUB).url == (
        "https://store.example/bucket/adapters/mine.tar.gz"
    )
