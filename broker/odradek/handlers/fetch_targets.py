"""One partition that a fetch asks for, and what the client of its session knows of it."""

from __future__ import annotations

from odradek.protocol.hot.fetch_request import AskedPartition, Key
from odradek.replication.partition import Partition


class Target:
    """What the request asks of one partition, and what the session last answered of it."""

    __slots__ = (
        "bytes_max",
        "current_leader_epoch",
        "fetch_offset",
        "follower_log_start",
        "high_watermark",
        "index",
        "key",
        "last_fetched_epoch",
        "log_start_offset",
        "matching_epoch",
        "partition",
        "topic",
    )

    def __init__(
        self,
        topic: str | bytes,
        index: int,
        fetch_offset: int,
        bytes_max: int,
        current_leader_epoch: int,
        last_fetched_epoch: int,
        follower_log_start: int = -1,
    ) -> None:
        self.topic = topic
        self.index = index
        self.key: Key = (topic, index)
        self.fetch_offset = fetch_offset
        self.bytes_max = bytes_max
        self.current_leader_epoch = current_leader_epoch
        self.last_fetched_epoch = last_fetched_epoch
        self.follower_log_start = follower_log_start
        self.partition: Partition | None = None
        self.matching_epoch = -1
        """The leader epoch in which a follower's request was found to match the log as it stands."""
        self.high_watermark = -1
        self.log_start_offset = -1

    def update(self, asked: AskedPartition) -> None:
        """Take what the client asks now; what it was answered stays."""
        (
            _,
            _,
            self.fetch_offset,
            self.bytes_max,
            self.current_leader_epoch,
            self.last_fetched_epoch,
            self.follower_log_start,
        ) = asked
        self.matching_epoch = -1
