"""What is billed of a request whose gateway is gone, by what is known of its sequences."""

from datetime import UTC, datetime
from uuid import UUID, uuid4

from loraplex.engine.protocol.generation import FinalCounts, FinishReason
from loraplex.platform.admission.verdicts import Lapsed, Outcome, judge
from loraplex.platform.metering.sequences import CallUsage
from loraplex.platform.pools.recounting import Recount


def lapsed(sequences: int, choices_per_prompt: int, *, is_overdue: bool = False) -> Lapsed:
    return Lapsed(
        tenant_id=uuid4(),
        request_id="r",
        model="m",
        base_model="base",
        price_id=UUID(int=0),
        admitted_at=datetime.now(UTC),
        is_overdue=is_overdue,
        sequences=sequences,
        choices_per_prompt=choices_per_prompt,
    )


def ended(
    place: int, prompt: int, cached: int, output: int, end: FinishReason = FinishReason.STOP
) -> tuple[str, FinalCounts]:
    name = f"r-{place}"
    return name, FinalCounts(
        request_id=name,
        attempt=0,
        prompt_tokens=prompt,
        cached_tokens=cached,
        output_tokens=output,
        finish_reason=end,
    )


def recount(*counts: tuple[str, FinalCounts], running: frozenset[str] = frozenset()) -> Recount:
    return Recount(dict(counts), running, is_complete=True)


def test_a_prompt_of_several_choices_counts_once_and_each_choices_output() -> None:
    counts = [ended(0, 9, 4, 5), ended(1, 9, 8, 6), ended(2, 7, 0, 1), ended(3, 7, 6, 0)]
    verdict = judge(lapsed(4, 2), recount(*counts))
    assert verdict is not None
    assert verdict.outcome is Outcome.COMPLETED
    assert verdict.used == CallUsage(prompt_tokens=16, cached_tokens=4, output_tokens=12)


def test_a_sequence_that_runs_is_waited_for_however_long() -> None:
    running = recount(ended(0, 9, 0, 5), running=frozenset({"r-1"}))
    assert judge(lapsed(2, 1), running) is None
    assert judge(lapsed(2, 1, is_overdue=True), running) is None


def test_one_that_nobody_knows_is_lost_at_the_deadline_and_the_rest_billed() -> None:
    part = recount(ended(1, 9, 0, 5))
    assert judge(lapsed(2, 1), part) is None
    verdict = judge(lapsed(2, 1, is_overdue=True), part)
    assert verdict is not None
    assert (verdict.outcome, verdict.used) == (Outcome.LOST, CallUsage(9, 0, 5))


def test_what_was_cut_short_has_failed() -> None:
    for reason in (FinishReason.CANCELLED, FinishReason.ERROR):
        verdict = judge(lapsed(1, 1), recount(ended(0, 9, 0, 5, reason)))
        assert verdict is not None
        assert verdict.outcome is Outcome.FAILED
