"""The offsets that bound one log: where it starts, up to where it is on the device, and where it ends.

A partition's high watermark and last stable offset are `replication`'s: they depend on other replicas and transactions.
"""

from __future__ import annotations


class LogOffsets:
    """Four offsets that change together; only the parts of one log write them."""

    __slots__ = ("log_end_offset", "log_start_offset", "opened_at_offset", "recovery_point", "truncations")

    def __init__(self, *, log_start_offset: int, recovery_point: int, log_end_offset: int) -> None:
        # The first offset that readers may ask for.
        self.log_start_offset = log_start_offset
        # Everything below is on the device.
        self.recovery_point = recovery_point
        # The offset of the next record.
        self.log_end_offset = log_end_offset
        # Where the log ended when it was opened.
        self.opened_at_offset = log_end_offset
        # How often the log was truncated. An offset that was noted before the last time may mean another record now.
        self.truncations = 0

    def truncate_to(self, offset: int) -> None:
        """The log ends at `offset`, which is not above its end."""
        self.log_end_offset = offset
        self.recovery_point = min(self.recovery_point, offset)
        self.log_start_offset = min(self.log_start_offset, offset)

    def restart_at(self, offset: int) -> None:
        """The log is empty and starts at `offset`."""
        self.log_start_offset = self.log_end_offset = self.recovery_point = offset
