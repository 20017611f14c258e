"""The type that says whose data a unit of work may touch."""

from typing import NewType
from uuid import UUID

TenantId = NewType("TenantId", UUID)
"""A tenant's id. Only authentication makes one; operators' code and jobs read it from a row."""
