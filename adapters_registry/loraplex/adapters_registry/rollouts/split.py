"""Which of two versions a conversation gets: by integer shares of 100, the same one every time."""

import hashlib
from collections.abc import Collection, Mapping
from uuid import UUID

SHARES = 100


def shares(
    stable: int, candidate: int | None, weight: int, is_callable: Collection[int]
) -> dict[int, int]:
    """Each callable version's share; they add up to SHARES, or there is none.

    `weight` is the candidate's. A version that is not callable gets nothing: its share is the
    other's, if the other has one at all.
    """
    wanted = {stable: SHARES - weight}
    if candidate is not None:
        wanted[candidate] = weight
    served = {
        number: share for number, share in wanted.items() if share > 0 and number in is_callable
    }
    if len(served) == 1:
        return dict.fromkeys(served, SHARES)
    return served


def place_of(tenant_id: UUID, rollout_id: UUID, sticky_key: str) -> int:
    """Where a conversation stands in a rollout, from 0 to SHARES - 1.

    The rollout's id is part of it, so that not the same people try every new version first.
    """
    text = f"{tenant_id}/{rollout_id}/{sticky_key}".encode(errors="surrogatepass")
    return int.from_bytes(hashlib.sha256(text).digest()[:8]) % SHARES


def pick(shares: Mapping[int, int], stable: int, place: int) -> int:
    """The version at a place. Whoever got the candidate keeps it when its share grows."""
    assert sum(shares.values()) == SHARES, "shares add up"
    candidates = [number for number in shares if number != stable]
    if candidates and place < shares[candidates[0]]:
        return candidates[0]
    return stable if stable in shares else candidates[0]
