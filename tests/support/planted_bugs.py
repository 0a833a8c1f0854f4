"""Bugs of replication that are planted on purpose, to see that the checks find them."""

from __future__ import annotations

import asyncio

import pytest

from odradek.broker.replication.acknowledgements import Waiter, Waiters
from odradek.broker.replication.partition import Partition
from odradek.broker.replication.partition_reader import PartitionReader


def acknowledge_at_once(patch: pytest.MonkeyPatch) -> None:
    """acks=all is answered before the high watermark has come there."""

    def add(self: Waiters, waiting: Waiter, offset: int) -> None:
        asyncio.get_running_loop().call_soon(waiting.resolve_waiters, self, None)

    patch.setattr(Waiters, "add", add)


def truncate_to_the_high_watermark(patch: pytest.MonkeyPatch) -> None:
    """A replica that begins to follow truncates its log to the high watermark that it knows, as before KIP-101."""
    stop_leading = Partition._stop_leading

    def cut_too(self: Partition) -> None:
        stop_leading(self)
        if self.follower is not None:
            self.follower.truncate_to(self.high_watermark)

    patch.setattr(Partition, "_stop_leading", cut_too)


def skip_the_epoch_of_the_last_record(patch: pytest.MonkeyPatch) -> None:
    """A leader does not look whether a follower's last record is its own."""
    patch.setattr(PartitionReader, "divergence", lambda *_: None)
