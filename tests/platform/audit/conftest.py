"""Tenants as the log knows them: ids, which it does not look up."""

from uuid import uuid4

import pytest

from loraplex.platform.tenancy.identity import TenantId


@pytest.fixture
def tenant_id() -> TenantId:
    return TenantId(uuid4())


@pytest.fixture
def neighbour_id() -> TenantId:
    return TenantId(uuid4())
