"""Which URLs may be called at all, before anything is resolved."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

import httpx

from loraplex.engine.protocol.errors import DomainError, Kind
from loraplex.platform.outbound.addresses import PrivateHosts, literal_address
from loraplex.platform.outbound.errors import AddressInvalid, AddressNotPublic
from loraplex.platform.settings import Settings

MAX_URL_CHARACTERS = 8192
DEFAULT_PORTS = {"https": 443, "http": 80}
_LABEL: Final = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME: Final = re.compile(rf"(?=.{{1,253}}\Z){_LABEL}(?:\.{_LABEL})*", re.ASCII)
_RANGE: Final = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?", re.ASCII)
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*", re.ASCII)


class InvalidPorts(DomainError):
    """LORAPLEX_OUTBOUND_PORTS holds what is no port."""

    kind, code = Kind.INVALID, "invalid_outbound_ports"
    field, rule = "LORAPLEX_OUTBOUND_PORTS", "ports or ranges of ports, separated by commas"

    def __init__(self, text: str) -> None:
        super().__init__(
            f"LORAPLEX_OUTBOUND_PORTS is {text!r}; write ports or ranges of them such as "
            "443, 9000-9010.",
            value=text,
        )


@dataclass(frozen=True)
class Ports:
    """Single ports and ranges of them."""

    ranges: tuple[range, ...] = (range(443, 444),)

    @classmethod
    def parse(cls, text: str) -> Ports:
        """`443, 9000-9010`. Raises InvalidPorts."""
        found = [_RANGE.fullmatch(part.strip()) for part in text.split(",")]
        ranges = [range(int(one[1]), int(one[2] or one[1]) + 1) for one in found if one]
        if None in found or not all(0 < ports.start < ports.stop <= 65536 for ports in ranges):
            raise InvalidPorts(text)
        return cls(tuple(ranges))

    def __contains__(self, port: int) -> bool:
        return any(port in ports for ports in self.ranges)

    def __str__(self) -> str:
        return ", ".join(
            f"{ports.start}" if len(ports) == 1 else f"{ports.start}-{ports.stop - 1}"
            for ports in self.ranges
        )


@dataclass(frozen=True)
class OutboundRules:
    """An operator's rules. What they do not allow is refused by name."""

    ports: Ports = field(default_factory=Ports)
    allows_http: bool = False
    private_hosts: PrivateHosts = field(default_factory=PrivateHosts)

    @classmethod
    def from_settings(cls, settings: Settings) -> OutboundRules:
        """Raises InvalidPorts and InvalidPrivateHosts."""
        return cls(
            Ports.parse(settings.outbound_ports),
            settings.outbound_http,
            PrivateHosts.parse(settings.outbound_private_hosts),
        )

    def check(self, url: str) -> httpx.URL:
        """The URL, parsed for good: what is checked here is what will be connected to.

        Raises AddressInvalid, and AddressNotPublic for an IP address that is not allowed; names
        are judged when they are resolved, right before they are connected to.
        """
        if len(url) > MAX_URL_CHARACTERS:
            rule = f"at most {MAX_URL_CHARACTERS} characters"
            raise AddressInvalid("The address is too long.", rule=rule, value=len(url))
        try:
            parsed = httpx.URL(url)
        except httpx.InvalidURL:
            raise AddressInvalid("That is no URL.", rule="a URL") from None
        return self.check_parsed(parsed)

    def check_parsed(self, url: httpx.URL) -> httpx.URL:
        schemes = ("https", "http") if self.allows_http else ("https",)
        if url.scheme not in schemes:
            rule = " or ".join(f"{scheme}://" for scheme in schemes)
            raise AddressInvalid(f"The address must begin with {rule}.", rule=rule)
        if url.userinfo:
            raise AddressInvalid(
                "The address must not hold a user name or a password.", rule="no user or password"
            )
        host = self._host(url)
        port = DEFAULT_PORTS[url.scheme] if url.port is None else url.port
        if port not in self.ports and not (self.allows_http and port == 80):
            allowed = f"{self.ports} and 80" if self.allows_http else f"{self.ports}"
            raise AddressInvalid(
                f"The port {port} is not called from here; allowed: {allowed}.",
                rule=f"one of the ports {allowed}",
                value=port,
            )
        return url.copy_with(host=host, fragment=None)

    def _host(self, url: httpx.URL) -> str:
        """The host in its one spelling: lower case, ASCII, no trailing dot."""
        host = url.raw_host.decode("ascii").lower().removesuffix(".")
        address = literal_address(host)
        if address is not None:
            if not self.private_hosts.allow_all(host, [address]):
                raise AddressNotPublic(host)
            return host
        # Resolvers read 0x7f.1, 017700000001 and 2130706433 as IPv4 addresses; people do not.
        is_odd_number = _NUMBER.fullmatch(host.rpartition(".")[2])
        if is_odd_number or not _NAME.fullmatch(host):
            raise AddressInvalid(
                "The address needs a host: a DNS name, or an IP address in its usual form.",
                rule="a DNS name or an IP address",
                value=host,
            )
        return host
