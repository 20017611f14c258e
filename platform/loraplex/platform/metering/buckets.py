"""Buckets of time: half-open, in UTC, of three widths."""

from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final


class BucketWidth(StrEnum):
    MINUTE = "1m"
    HOUR = "1h"
    DAY = "1d"

    @property
    def unit(self) -> str:
        """What Postgres' date_trunc calls it."""
        return UNITS[self]

    @property
    def length(self) -> timedelta:
        return LENGTHS[self]

    @property
    def max_buckets(self) -> int:
        """How many one answer holds at most: about a day, a week and a month."""
        return MAX_BUCKETS[self]

    def begin(self, moment: datetime) -> datetime:
        """The start of the bucket that `moment` lies in."""
        return moment - (moment - EPOCH) % self.length

    def end(self, moment: datetime) -> datetime:
        """The first bucket's start that is not before `moment`."""
        return moment + (EPOCH - moment) % self.length


EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
UNITS: Final = {BucketWidth.MINUTE: "minute", BucketWidth.HOUR: "hour", BucketWidth.DAY: "day"}
LENGTHS: Final = {
    BucketWidth.MINUTE: timedelta(minutes=1),
    BucketWidth.HOUR: timedelta(hours=1),
    BucketWidth.DAY: timedelta(days=1),
}
MAX_BUCKETS: Final = {BucketWidth.MINUTE: 1440, BucketWidth.HOUR: 168, BucketWidth.DAY: 31}
