"""The offsets that bound one log: where it starts, up to where it is on the device, and where it ends.

A partition's high watermark and last stable offset are `replication`'s: they depend on other replicas and transactions.
"""

from __future__ import annotations

from collections.abc import Callable


class LogOffsets:
    """Offsets that change together; only the parts of one log, and the cleaner, write them."""

    __slots__ = (
        "cleaned_offset",
        "log_end_offset",
        "log_start_offset",
        "on_truncated",
        "opened_at_offset",
        "recovery_point",
        "truncations",
    )

    def __init__(self, *, log_start_offset: int, recovery_point: int, log_end_offset: int) -> None:
        # The first offset that readers may ask for.
        self.log_start_offset = log_start_offset
        # Everything below is on the device.
        self.recovery_point = recovery_point
        # The offset of the next record.
        self.log_end_offset = log_end_offset
        # Compaction left one record of each key below; -1 while it has not been here.
        self.cleaned_offset = -1
        # Where the log ended when it was opened.
        self.opened_at_offset = log_end_offset
        # How often the log was truncated. An offset that was noted before the last time may mean another record now.
        self.truncations = 0
        # Called when records at the end have gone, so that no one works on with what was there.
        self.on_truncated: Callable[[], None] | None = None

    def truncate_to(self, offset: int) -> None:
        """The log ends at `offset`, which is not above its end."""
        self.log_end_offset = offset
        self.recovery_point = min(self.recovery_point, offset)
        self.log_start_offset = min(self.log_start_offset, offset)
        self.cleaned_offset = min(self.cleaned_offset, offset)
        self._report_truncation()

    def restart_at(self, offset: int) -> None:
        """The log is empty and starts at `offset`."""
        self.log_start_offset = self.log_end_offset = self.recovery_point = offset
        self.cleaned_offset = -1
        self._report_truncation()

    def restart_below_start(self, base_offset: int) -> None:
        """The log is empty and starts inside the batch at `base_offset`, which is written next."""
        self.recovery_point = base_offset
        self.cleaned_offset = -1
        self.truncations += 1
        self._report_truncation()

    def _report_truncation(self) -> None:
        if self.on_truncated is not None:
            self.on_truncated()
