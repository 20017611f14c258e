"""However many tenants call, few have a label, and nothing else adds series."""

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from loraplex.api.series.calls import CallMetrics
from loraplex.api.series.tenants import OTHER, TenantLabels

NAMES = st.lists(st.from_regex(r"[a-z]{1,3}", fullmatch=True), max_size=60)


@given(st.integers(0, 5), NAMES)
def test_labels_are_few_and_a_tenant_keeps_its_own(most: int, names: list[str]) -> None:
    labels = TenantLabels(most)
    given_out = [(name, labels.of(name)) for name in names]
    own = {label for _, label in given_out} - {OTHER}
    assert len(own) <= most
    assert all(label in (name, OTHER) for name, label in given_out)
    assert all(labels.of(name) == name for name in own)


def test_preferred_tenants_have_theirs_before_anybody_comes() -> None:
    labels = TenantLabels(2)
    labels.prefer(["large", "larger", "third"])
    assert [labels.of(name) for name in ("first-come", "larger", "large", "third")] == [
        OTHER,
        "larger",
        "large",
        OTHER,
    ]


def test_a_thousand_tenants_make_no_more_series_than_the_labels_there_are() -> None:
    registry = CollectorRegistry()
    metrics, labels = CallMetrics(registry), TenantLabels(20)
    for number in range(1000):
        for slo_class in ("interactive", "batch"):
            series = metrics.of("base", slo_class, labels.of(f"tenant-{number}"))
            series.time_to_first_token.observe(0.1)
    tenants = {
        sample.labels["tenant"]
        for family in registry.collect()
        for sample in family.samples
        if "tenant" in sample.labels
    }
    assert len(tenants) == 21
    assert len([0 for family in registry.collect() for _ in family.samples]) < 2 * 21 * 150
