"""Whatever is asked for, nobody gives a key more than they have."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loraplex.engine.protocol.identity import TenantNamespace
from loraplex.platform.tenancy.credentials import CredentialState
from loraplex.platform.tenancy.errors import ExceedsCreator, ExpiryInThePast, KeyNotYours
from loraplex.platform.tenancy.identity import TenantId
from loraplex.platform.tenancy.key_rules import (
    MANAGERS,
    Models,
    bounded_expiry,
    check_holds,
    check_manages,
    check_models,
    check_scopes,
)
from loraplex.platform.tenancy.key_views import ApiKeyView
from loraplex.platform.tenancy.principals import TenantPrincipal
from loraplex.platform.tenancy.scopes import SCOPES_OF, Role, Scope, granted

NOW = datetime(2026, 11, 30, tzinfo=UTC)
MEMBERS = [None, uuid4(), uuid4()]

roles = st.sampled_from(list(Role))
scope_sets = st.frozensets(st.sampled_from(list(Scope)))
model_sets = st.none() | st.frozensets(st.sampled_from(["base", "support", "sales"]), min_size=1)
moments = st.none() | st.datetimes(
    NOW.replace(tzinfo=None) - timedelta(days=3),
    NOW.replace(tzinfo=None) + timedelta(days=3),
    timezones=st.just(UTC),
)


@st.composite
def principals(draw: st.DrawFn) -> TenantPrincipal:
    role = draw(roles)
    names = draw(st.none() | scope_sets)
    return TenantPrincipal(
        TenantId(uuid4()),
        "acme",
        TenantNamespace("n"),
        key_id=uuid4(),
        member_id=draw(st.sampled_from(MEMBERS)),
        role=role,
        scopes=granted(role, names),
        models=draw(model_sets),
        label="ci",
    )


@st.composite
def keys(draw: st.DrawFn) -> ApiKeyView:
    role = draw(roles)
    return ApiKeyView(
        id=uuid4(),
        name="batch",
        label="lpx_…",
        state=CredentialState.LIVE,
        expires_at=None,
        disabled_at=None,
        revoked_at=None,
        last_used_at=None,
        replaced_by_id=None,
        created_at=NOW,
        member_id=draw(st.sampled_from(MEMBERS)),
        role=role,
        scopes=granted(role, draw(st.none() | scope_sets)),
        models=draw(model_sets),
    )


def within(models: Models, bound: Models) -> bool:
    return bound is None or (models is not None and models <= bound)


@given(roles, st.none() | st.lists(st.sampled_from([*Scope, "future.read", "", "owner"])))
def test_scopes_never_go_beyond_the_role(role: Role, names: list[str] | None) -> None:
    assert granted(role, names) <= SCOPES_OF[role]
    assert granted(role, None) == SCOPES_OF[role]


@given(roles, roles, scope_sets)
def test_a_role_that_shrinks_takes_scopes_along(
    before: Role, after: Role, names: frozenset[Scope]
) -> None:
    given_then = granted(before, names)
    assert granted(after, sorted(given_then)) == given_then & SCOPES_OF[after]


@given(principals(), scope_sets)
def test_scopes_are_given_exactly_when_the_creator_has_them(
    principal: TenantPrincipal, wanted: frozenset[Scope]
) -> None:
    if wanted <= principal.scopes:
        check_scopes(principal, wanted)
        assert granted(principal.role, wanted) == wanted
    else:
        with pytest.raises(ExceedsCreator):
            check_scopes(principal, wanted)


@given(principals(), model_sets)
def test_models_are_given_exactly_when_the_creator_may_call_them(
    principal: TenantPrincipal, wanted: Models
) -> None:
    if within(wanted, principal.models):
        check_models(principal, wanted)
    else:
        with pytest.raises(ExceedsCreator):
            check_models(principal, wanted)


@given(moments, moments)
def test_no_key_outlives_the_key_that_makes_it(
    wanted: datetime | None, creators: datetime | None
) -> None:
    try:
        ends_at = bounded_expiry(wanted, creators, NOW)
    except ExpiryInThePast:
        assert wanted is not None
        assert wanted <= NOW
    except ExceedsCreator:
        assert wanted is not None
        assert creators is not None
        assert wanted > creators
    else:
        assert ends_at == (wanted or creators)
        assert creators is None or (ends_at is not None and ends_at <= creators)


@given(principals(), keys())
def test_who_manages_a_key_could_have_given_what_it_has(
    principal: TenantPrincipal, key: ApiKeyView
) -> None:
    has_all = key.scopes <= principal.scopes and within(key.models, principal.models)
    is_own = key.member_id in (None, principal.member_id)
    if has_all and (is_own or principal.role in MANAGERS):
        check_manages(principal, key)
    else:
        with pytest.raises(KeyNotYours):
            check_manages(principal, key)


@given(principals(), keys())
def test_nobody_holds_another_members_key(principal: TenantPrincipal, key: ApiKeyView) -> None:
    try:
        check_holds(principal, key)
    except KeyNotYours:
        return
    check_manages(principal, key)
    assert key.member_id in (None, principal.member_id)


@pytest.mark.parametrize("role", [Role.OWNER, Role.ADMIN])
def test_not_even_an_owner_gets_a_members_key(role: Role) -> None:
    owner = TenantPrincipal(
        TenantId(uuid4()),
        "acme",
        TenantNamespace("n"),
        None,
        MEMBERS[1],
        role,
        SCOPES_OF[role],
        None,
        "Ann",
    )
    view = ApiKeyView(
        uuid4(),
        "a",
        "b",
        CredentialState.LIVE,
        None,
        None,
        None,
        None,
        None,
        NOW,
        member_id=MEMBERS[2],
        role=Role.DEVELOPER,
        scopes=SCOPES_OF[Role.DEVELOPER],
        models=None,
    )
    check_manages(owner, view)
    with pytest.raises(KeyNotYours, match="its member"):
        check_holds(owner, view)
    check_holds(owner, replace(view, member_id=None))
