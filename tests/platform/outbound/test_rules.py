from ipaddress import IPv4Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loraplex.platform.outbound.addresses import PrivateHosts
from loraplex.platform.outbound.errors import AddressInvalid, AddressNotPublic
from loraplex.platform.outbound.rules import InvalidPorts, OutboundRules, Ports

RULES = OutboundRules()
LABEL = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?", fullmatch=True)


def spellings(address: IPv4Address) -> list[str]:
    """How else inet_aton, and so a resolver, lets one write an IPv4 address."""
    number = int(address)
    a, b, c, d = address.packed
    return [
        str(number),
        hex(number),
        f"0{number:o}",
        f"0x{number:X}",
        f"{a}.{number & 0xFFFFFF}",
        f"{a}.{b}.{number & 0xFFFF}",
        f"0x{a:x}.{b}.{c}.{d}",
        f"0{a:o}.0{b:o}.0{c:o}.0{d:o}",
        f"{a}.{b}.{c}.0x{d:x}",
        f"{number}.",
    ]


@given(st.ip_addresses(v=4), st.sampled_from(range(10)))
def test_an_address_in_an_odd_spelling_is_refused_whatever_it_is(
    address: IPv4Address, spelling: int
) -> None:
    host = spellings(address)[spelling]
    with pytest.raises((AddressInvalid, AddressNotPublic)):
        RULES.check(f"https://{host}/")


@given(st.ip_addresses(v=4, network="127.0.0.0/8"), st.sampled_from(["", "."]))
def test_a_private_address_is_refused_before_anything_is_called(
    address: IPv4Address, dot: str
) -> None:
    with pytest.raises((AddressNotPublic, AddressInvalid)):
        RULES.check(f"https://{address}{dot}/")


@pytest.mark.parametrize(
    "url",
    [
        "https://[::1]/",
        "https://[::ffff:127.0.0.1]/",
        "https://[::ffff:7f00:1]/",
        "https://[64:ff9b::7f00:1]/",
        "https://[fd00:ec2::254]/",
        "https://169.254.169.254/latest/meta-data/",
    ],
)
def test_a_literal_that_is_not_public_is_refused(url: str) -> None:
    with pytest.raises(AddressNotPublic):
        RULES.check(url)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "example.com/x",
        "http://example.com/",
        "file:///etc/passwd",
        "gopher://example.com/",
        "https://",
        "https:///etc/passwd",
        "https://user:secret@example.com/",
        "https://example.com\\@10.0.0.1/",
        "https://127.0.0.1\\.example.com/",
        "https://example.com:22/",
        "https://example.com:0/",
        "https://example.com:99999/",
        "https://exa mple.com/",
        "https://example.com\n.evil.com/",
        "https://example..com/",
        "https://.example.com/",
        "https://example.com../",
        "https://-example.com/",
        "https://1２7.0.0.1/",
        "https://①②⑦.⓪.⓪.①/",
        "https://[fe80::1%25eth0]/",
        "https://example%2ecom/",
        "https://%31%32%37.0.0.1/",
        "https://" + "a." * 130 + "com/",
        "https://example.com/" + "a" * 9000,
    ],
)
def test_what_is_no_plain_address_of_a_host_is_refused(url: str) -> None:
    with pytest.raises(AddressInvalid) as caught:
        RULES.check(url)
    assert "secret" not in caught.value.message


def test_a_name_has_one_spelling() -> None:
    url = RULES.check("https://BÜCHER.Example./Path?Query=1#fragment")
    assert str(url) == "https://xn--bcher-kva.example/Path?Query=1"
    assert url.raw_host == b"xn--bcher-kva.example"


@given(st.lists(LABEL, min_size=2, max_size=4), st.text(max_size=40))
def test_checking_changes_nothing_of_a_url_that_was_checked(labels: list[str], path: str) -> None:
    try:
        once = RULES.check(f"https://{'.'.join(labels)}/{path}")
    except (AddressInvalid, AddressNotPublic):
        return
    assert RULES.check(str(once)) == once


@given(st.text(max_size=60))
def test_any_text_is_refused_or_is_https(text: str) -> None:
    try:
        url = RULES.check(text)
    except (AddressInvalid, AddressNotPublic):
        return
    assert url.scheme == "https" and url.host and not url.userinfo


def test_an_operator_opens_ports_http_and_networks() -> None:
    rules = OutboundRules(
        Ports.parse("443, 9000"), allows_http=True, private_hosts=PrivateHosts.parse("10.0.0.0/8")
    )
    assert rules.check("http://10.1.1.1:9000/bucket").port == 9000
    assert rules.check("http://minio.internal/bucket").host == "minio.internal"
    with pytest.raises(AddressNotPublic):
        rules.check("http://127.0.0.1:9000/")
    with pytest.raises(AddressInvalid, match="port 9001"):
        rules.check("http://10.1.1.1:9001/")


def test_ports_are_numbers_and_ranges_separated_by_commas() -> None:
    ports = Ports.parse("443, 9000-9010")
    assert [port in ports for port in (442, 443, 444, 8999, 9000, 9010, 9011)] == [
        *(False, True, False),
        *(False, True, True, False),
    ]
    assert str(ports) == "443, 9000-9010"
    for text in ("", "443;", "https", "0", "65536", "443,", "9-8", "1-2-3", "-5", "٣"):
        with pytest.raises(InvalidPorts):
            Ports.parse(text)
