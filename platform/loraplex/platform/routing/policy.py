"""Which worker a request goes to: pure decisions over what is known of the workers right now.

Knows loads and limits; a place for the tokens a worker's cache would save is `Candidate`.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Candidate:
    """A live worker that could take the request.

    `own_requests` is what this gateway has in flight there now, `reported_requests` what the
    worker's last heartbeat counted from everybody, and `own_requests_then` this gateway's share of
    that count.
    """

    worker_id: str
    own_requests: int
    reported_requests: int
    own_requests_then: int
    max_request_tokens: int

    @property
    def load_requests(self) -> int:
        """Requests on the worker, counted at this moment.

        Heartbeats are half a second old: without its own count a gateway would send every request
        of a burst to the same worker. Others' requests are what the report had beyond ours.
        """
        return self.own_requests + max(0, self.reported_requests - self.own_requests_then)


def choose(
    candidates: Sequence[Candidate], request_tokens: int, randomness: random.Random
) -> Candidate | None:
    """The least loaded of the workers that can hold the request, ties at random.

    When none can hold it, any may have it: the worker's refusal names the numbers. None only
    where there is no candidate.
    """
    fitting = [one for one in candidates if request_tokens <= one.max_request_tokens]
    eligible = fitting or candidates
    if not eligible:
        return None
    least = min(one.load_requests for one in eligible)
    return randomness.choice([one for one in eligible if one.load_requests == least])
