"""Which shard has a group: what requests need to know of the coordinator, and all that they do.

A group belongs to the partition of `__consumer_offsets` that its id hashes to (Java's `String.hashCode`). The
modules of requests import this one; `coordinator` imports them all, loads shards and forgets them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from odradek.cluster.group_configs import group_value
from odradek.cluster.image import ResourceKind
from odradek.foundation.clock import Clock
from odradek.foundation.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    InvalidGroupId,
    NotCoordinator,
    UnsupportedVersion,
)
from odradek.groups.offsets_log import OffsetsLog
from odradek.groups.patterns import TopicPatterns
from odradek.groups.shard import Shard, ShardState
from odradek.protocol.group_partitions import OFFSETS_TOPIC, partition_of

if TYPE_CHECKING:
    from odradek.cluster.image import ImageHolder

LOAD_RETRY_SECONDS_MAX: Final = 60.0
CONSUMER_PROTOCOL: Final = "consumer"


def refusal(partition: int, error: BaseException | None) -> str:
    """Why the groups of a partition are not served, and what can be done."""
    return (
        f"partition {partition} of {OFFSETS_TOPIC} cannot be loaded ({error}). Its groups are refused, and its log "
        f"is left as it is, until it can be read: put the partition's directory back from a copy, or stop the "
        f"broker and delete the directory to begin without its groups and their offsets. Loading is tried again "
        f"every {LOAD_RETRY_SECONDS_MAX:.0f} s at the least"
    )


class Routing(ABC):
    """The shards of one broker, what they share, and the settings as they hold for one group.

    `settings` has Kafka's group and offset settings as attributes; `images` holds the current cluster image.
    """

    def __init__(
        self,
        offsets_log: OffsetsLog,
        *,
        clock: Clock,
        settings: Any,
        images: ImageHolder,
        new_id: Callable[[], str],
    ) -> None:
        self.log = offsets_log
        self.clock = clock
        self.settings = settings
        self.images = images
        self.new_id = new_id
        self.patterns = TopicPatterns()
        self.is_running = False
        self._shards: dict[int, Shard] = {}
        self.commits = 0
        self.commits_failed = 0
        self.offsets_expired = 0
        self.rebalances_of_gone_shards = 0

    @abstractmethod
    def begin_load(self, partition: int) -> Shard:
        """Make the shard of a partition that this broker has come to lead, and load it in the background."""

    # --- shards ---------------------------------------------------------------------------------------------

    def partition_for(self, group_id: str) -> int:
        """The partition of the offsets topic that the group belongs to."""
        return partition_of(group_id, self.log.partition_count())

    def shard(self, group_id: str) -> Shard:
        """The group's shard. Raises NotCoordinator, CoordinatorLoadInProgress, CoordinatorNotAvailable."""
        if not self.is_running:
            raise CoordinatorNotAvailable("the group coordinator is not running; try again")
        partition = self.partition_for(group_id)
        # Asked also where there is a shard: another broker may lead the partition while the registry is silent here.
        if not self.log.is_ready(partition):
            raise NotCoordinator(
                f"the group {group_id!r} is coordinated elsewhere; find its coordinator again"
            )
        shard = self._shards.get(partition)
        if shard is None:
            shard = self.begin_load(partition)
        if shard.state is ShardState.LOADING:
            raise CoordinatorLoadInProgress(f"the group {group_id!r} is being loaded; try again")
        if shard.state is ShardState.FAILED:
            raise CoordinatorNotAvailable(
                f"the group {group_id!r} is not served: {refusal(partition, shard.failure)}"
            )
        return shard

    def shard_here(self, group_id: str) -> Shard | None:
        """The group's shard if this broker has it in memory, whether or not clients are served."""
        return self._shards.get(self.partition_for(group_id))

    def named_shard(self, group_id: str) -> Shard:
        """As `shard`; raises InvalidGroupId for an empty id, which only offsets may have."""
        if not group_id:
            raise InvalidGroupId("the group id must not be empty; set group.id")
        return self.shard(group_id)

    def shards(self) -> list[Shard]:
        return list(self._shards.values())

    def loaded_shards(self) -> Iterator[Shard]:
        return (shard for shard in list(self._shards.values()) if shard.state is ShardState.ACTIVE)

    @property
    def is_loading(self) -> bool:
        return any(shard.state is ShardState.LOADING for shard in self._shards.values())

    @property
    def failed_partitions(self) -> int:
        """Partitions of the offsets topic that could not be loaded, whose groups are refused."""
        return sum(shard.state is ShardState.FAILED for shard in self._shards.values())

    async def loaded(self) -> None:
        """Wait until every partition led now is loaded."""
        for shard in list(self._shards.values()):
            await shard.loaded.wait()

    @property
    def rebalances(self) -> int:
        """Rebalances of classic groups that came to their end."""
        return self.rebalances_of_gone_shards + sum(s.rebalances_completed for s in self._shards.values())

    # --- settings that a group may have of its own ----------------------------------------------------------

    def session_timeout_ms(self, group_id: str) -> int:
        """How long a member of a consumer group may be silent."""
        return self._group_value("consumer.session.timeout.ms", group_id)

    def check_consumer_protocol(self) -> None:
        """Raises UnsupportedVersion when group.coordinator.rebalance.protocols leaves consumer groups out."""
        if CONSUMER_PROTOCOL not in self.settings.group_coordinator_rebalance_protocols:
            raise UnsupportedVersion(
                "this broker does not serve the consumer protocol: group.coordinator.rebalance.protocols is "
                f"{','.join(self.settings.group_coordinator_rebalance_protocols)}; use group.protocol=classic"
            )

    def heartbeat_interval_ms(self, group_id: str) -> int:
        """The time between heartbeats that members of a consumer group are told."""
        return self._group_value("consumer.heartbeat.interval.ms", group_id)

    def _group_value(self, key: str, group_id: str) -> int:
        texts = self.images.current.config(ResourceKind.GROUP, group_id)
        return group_value(key, texts, settings=self.settings)
