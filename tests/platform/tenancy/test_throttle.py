from ipaddress import IPv6Address
from uuid import uuid4

import pytest
from sqlalchemy import func, select

from loraplex.platform.database.sessions import Database
from loraplex.platform.secrets import SecretKeys
from loraplex.platform.tenancy.administration import TenantAdministration
from loraplex.platform.tenancy.errors import InvalidKey, TooManyFailures
from loraplex.platform.tenancy.keys import KeyKind, new_key
from loraplex.platform.tenancy.models import AuthFailure
from loraplex.platform.tenancy.service import Authenticator
from loraplex.platform.tenancy.throttle import FailureThrottle, network_of

LIMIT = 3


@pytest.fixture
def address() -> str:
    """An address that no other test fails from."""
    return str(IPv6Address(uuid4().int))


def gateway(database: Database, secret_keys: SecretKeys) -> Authenticator:
    return Authenticator(database, secret_keys, FailureThrottle(database, limit=LIMIT))


async def fail(authenticator: Authenticator, address: str) -> str:
    """Send an unknown key; which refusal came."""
    try:
        await authenticator.authenticate(new_key(KeyKind.TENANT), address)
    except (InvalidKey, TooManyFailures) as refusal:
        return refusal.code
    raise AssertionError("an unknown key was accepted")


async def counted(database: Database, address: str) -> int:
    async with database.unit_of_work() as session:
        mine = AuthFailure.address == network_of(address)
        return await session.scalar(select(func.sum(AuthFailure.failures)).where(mine)) or 0


async def test_gateways_share_one_count(
    database: Database, secret_keys: SecretKeys, address: str
) -> None:
    gateways = [gateway(database, secret_keys) for _ in range(2)]
    codes = [await fail(gateways[turn % 2], address) for turn in range(2 * LIMIT + 2)]
    # A minute may have turned in between; the sum of both windows is what must not be exceeded.
    assert codes.count("invalid_api_key") in range(LIMIT, 2 * LIMIT + 1)
    assert "too_many_failures" in codes


async def test_the_refusal_says_when_to_come_back(
    database: Database, secret_keys: SecretKeys, address: str
) -> None:
    throttled = gateway(database, secret_keys)
    with pytest.raises(TooManyFailures) as caught:
        for _ in range(2 * LIMIT + 1):
            try:
                await throttled.authenticate("malformed", address)
            except InvalidKey:
                continue
    assert caught.value.retry_after_seconds is not None
    assert 1 <= caught.value.retry_after_seconds <= 60


async def test_a_throttled_address_costs_no_more_writes(
    database: Database, secret_keys: SecretKeys, address: str
) -> None:
    throttled = gateway(database, secret_keys)
    for _ in range(10 * LIMIT):
        await fail(throttled, address)
    assert await counted(database, address) <= 2 * (LIMIT + 1)


async def test_a_good_key_passes_whatever_its_neighbours_do(
    database: Database,
    system_database: Database,
    secret_keys: SecretKeys,
    administration: TenantAdministration,
    address: str,
) -> None:
    async with system_database.unit_of_work() as session:
        key, text = await administration.create_operator_key(session, "neighbour")
    throttled = gateway(database, secret_keys)
    while await fail(throttled, address) != "too_many_failures":
        pass
    assert (await throttled.authenticate(text, address)).key_id == key.id
    assert (await throttled.open_session(text, address))[1].key_id == key.id


async def test_log_ins_count_too(database: Database, secret_keys: SecretKeys, address: str) -> None:
    throttled = gateway(database, secret_keys)
    with pytest.raises(InvalidKey):
        await throttled.open_session(new_key(KeyKind.OPERATOR), address)
    assert await counted(database, address) == 1


async def test_an_address_is_forgiven_when_its_window_ends(
    database: Database, address: str
) -> None:
    clock = [0.0]
    throttle = FailureThrottle(database, limit=0, monotonic=lambda: clock[0])
    with pytest.raises(TooManyFailures):
        await throttle.count(address)
    counted_before = await counted(database, address)
    with pytest.raises(TooManyFailures):
        await throttle.count(address)
    assert await counted(database, address) == counted_before
    clock[0] = 61.0
    with pytest.raises(TooManyFailures):
        await throttle.count(address)
    assert await counted(database, address) == counted_before + 1


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::", "2001:db8:1:2::/64"),
        ("testclient", "unknown"),
        ("", "unknown"),
    ],
)
def test_one_clients_addresses_are_one_network(address: str, network: str) -> None:
    assert network_of(address) == network
