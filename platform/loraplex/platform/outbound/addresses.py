"""Which IP addresses are the public internet, and which others an operator has allowed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)

from loraplex.engine.protocol.errors import DomainError, Kind

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

GLOBAL_UNICAST = IPv6Network("2000::/3")
"""All of IPv6 outside of it is reserved, private, local or multicast: mapped IPv4 too."""

# IANA's registries of special-purpose addresses. Spelled out, because what `is_global` says has
# changed between patch releases of Python, and because it takes multicast for global.
SPECIAL_IPV4 = tuple(
    IPv4Network(network)
    for network in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
    )
)
SPECIAL_IPV6 = tuple(
    IPv6Network(network)
    for network in (
        "2001::/23",  # Teredo and others that carry another address inside
        "2001:db8::/32",
        "2002::/16",  # 6to4 carries an IPv4 address inside
        "3fff::/20",
    )
)


def is_public(address: Address) -> bool:
    """Whether the address is one of the internet's own, and carries no other inside."""
    if isinstance(address, IPv4Address):
        return not any(address in network for network in SPECIAL_IPV4)
    return address in GLOBAL_UNICAST and not any(address in network for network in SPECIAL_IPV6)


class InvalidPrivateHosts(DomainError):
    """LORAPLEX_OUTBOUND_PRIVATE_HOSTS holds what is neither a host name nor a network."""

    kind, code = Kind.INVALID, "invalid_private_hosts"
    field, rule = "LORAPLEX_OUTBOUND_PRIVATE_HOSTS", "host names and networks, separated by commas"

    def __init__(self, entry: str) -> None:
        super().__init__(
            f"LORAPLEX_OUTBOUND_PRIVATE_HOSTS lists {entry!r}; write host names and networks such "
            "as minio.example, 10.20.0.0/16 or 127.0.0.1, separated by commas.",
            value=entry,
        )


@dataclass(frozen=True)
class PrivateHosts:
    """What an operator allows beyond the public internet.

    A network allows its own addresses. A name allows whatever it resolves to except link-local
    addresses, where clouds keep their machines' credentials.
    """

    names: frozenset[str] = frozenset()
    networks: tuple[Network, ...] = ()

    @classmethod
    def parse(cls, text: str | None) -> PrivateHosts:
        """From names and networks separated by commas. Raises InvalidPrivateHosts."""
        names: set[str] = set()
        networks: list[Network] = []
        for entry in (part.strip() for part in (text or "").split(",")):
            if not entry:
                continue
            try:
                networks.append(ip_network(entry))
            except ValueError:
                if "/" in entry or ":" in entry or not entry.isascii():
                    raise InvalidPrivateHosts(entry) from None
                names.add(entry.lower().rstrip("."))
        return cls(frozenset(names), tuple(networks))

    def allow(self, host: str, address: Address) -> bool:
        if any(address in network for network in self.networks):
            return True
        return host in self.names and not address.is_link_local and not address.is_multicast

    def allow_all(self, host: str, addresses: Sequence[Address]) -> bool:
        """Whether every address may be connected to, for that host."""
        return all(is_public(address) or self.allow(host, address) for address in addresses)


def literal_address(host: str) -> Address | None:
    """The address that a host is when it is no name; one with a zone (fe80::1%eth0) is neither."""
    try:
        return None if "%" in host else ip_address(host)
    except ValueError:
        return None
