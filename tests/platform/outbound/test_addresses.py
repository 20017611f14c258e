from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loraplex.platform.outbound.addresses import InvalidPrivateHosts, PrivateHosts, is_public

IPV4 = st.ip_addresses(v=4)


@pytest.mark.parametrize("address", ["8.8.8.8", "1.1.1.1", "2606:4700:4700::1111", "2a00::1"])
def test_the_internet_is_public(address: str) -> None:
    assert is_public(ip_address(address))


@pytest.mark.parametrize(
    "address",
    [
        "0.0.0.0",
        "10.1.2.3",
        "100.64.0.1",
        "127.0.0.1",
        "169.254.169.254",
        "172.31.255.255",
        "192.0.0.170",
        "192.168.0.1",
        "198.18.0.1",
        "203.0.113.9",
        "224.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::127.0.0.1",
        "::ffff:8.8.8.8",
        "64:ff9b::8.8.8.8",
        "64:ff9b:1::1",
        "100::1",
        "2001::1",
        "2001:db8::1",
        "2002:7f00:1::",
        "3fff::1",
        "5f00::1",
        "fc00::1",
        "fd00:ec2::254",
        "fe80::1",
        "fec0::1",
        "ff02::1",
    ],
)
def test_networks_of_ones_own_and_addresses_that_carry_another_are_not(address: str) -> None:
    assert not is_public(ip_address(address))


@given(st.ip_addresses())
def test_nothing_is_public_that_python_does_not_call_global(
    address: IPv4Address | IPv6Address,
) -> None:
    if is_public(address):
        assert address.is_global
        assert not (address.is_multicast or address.is_private or address.is_link_local)


@given(IPV4)
def test_no_ipv4_address_gets_through_inside_an_ipv6_address(inner: IPv4Address) -> None:
    number = int(inner)
    carriers = [
        IPv6Address(number),
        IPv6Address((0xFFFF << 32) | number),
        IPv6Address((0x64FF9B << 96) | number),
        IPv6Address((0x2002 << 112) | (number << 80)),
        IPv6Address((0x20010000 << 96) | (number ^ 0xFFFFFFFF)),
    ]
    assert not any(is_public(carrier) for carrier in carriers)


def test_an_operator_allows_networks_and_names() -> None:
    allowed = PrivateHosts.parse(" 10.20.0.0/16, MinIO.internal., fd00::/8,127.0.0.1 ,")
    assert allowed.allow_all("any.example", [ip_address("10.20.3.4"), ip_address("8.8.8.8")])
    assert allowed.allow("any.example", ip_address("127.0.0.1"))
    assert allowed.allow("minio.internal", ip_address("192.168.7.7"))
    assert not allowed.allow("any.example", ip_address("10.21.0.1"))
    assert not allowed.allow("any.example", ip_address("192.168.7.7"))


@pytest.mark.parametrize("address", ["169.254.169.254", "fe80::1", "224.0.0.1"])
def test_an_allowed_name_never_leads_to_a_machines_own_credentials(address: str) -> None:
    assert not PrivateHosts.parse("minio.internal").allow("minio.internal", ip_address(address))


def test_one_private_address_among_public_ones_refuses_the_host() -> None:
    addresses = [ip_address("8.8.8.8"), ip_address("10.0.0.1")]
    assert not PrivateHosts().allow_all("mixed.example", addresses)


@pytest.mark.parametrize("entry", ["10.0.0.0/33", "10.0.0.1/8", "https://minio", "minio:9000", "ü"])
def test_a_mistake_in_the_setting_is_named(entry: str) -> None:
    with pytest.raises(InvalidPrivateHosts) as caught:
        PrivateHosts.parse(f"ok.example,{entry}")
    assert caught.value.value == entry
