"""All partitions of this broker, kept in step with the cluster's image.

A change of the image is applied before `ImageHolder.replace` returns. The logs of a new topic are there before its
creator is answered, so a client's first produce finds them. Where the image is announced first (`ImageHolder.prepare`),
logs are made a few at a time, with other work in between. Of many partitions most are opened, closed or given their
settings after the change then, before `ImageHolder.complete` returns.

Partitions of a deleted topic are found no more from the change on. Their logs are renamed first and removed later. A
topic that is deleted and created again has another id.

Topic settings reach the logs as they change, and roles follow the image (`Partition.take_role`).

A partition that a full disk keeps from being opened, or from leading, is offline until `retry_offline` finds space.

What it leaves out: periodic work on the logs (`housekeeping`), fetching from other leaders (`fetcher_manager`).
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain

from odradek.broker.replication.acknowledgements import Acknowledgements
from odradek.broker.replication.context import ReplicaContext
from odradek.broker.replication.flusher import Flusher
from odradek.broker.replication.partition import Partition, PartitionCallbacks
from odradek.broker.replication.replica import ReplicaStart
from odradek.broker.replication.throttles import is_throttled
from odradek.foundation.clock import Clock, SystemClock
from odradek.foundation.errors import (
    KafkaStorageError,
    NotLeaderOrFollower,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from odradek.foundation.ids import TopicId, TopicPartition
from odradek.foundation.limits import LOGS_MADE_PER_TURN_MAX
from odradek.foundation.settings.broker_settings import Settings
from odradek.foundation.turn_limits import (
    PARTITIONS_OPENED_PER_TURN_MAX,
    PARTITIONS_THAT_A_DELETION_COUNTS,
    PARTITIONS_THAT_A_NEW_LOG_COUNTS,
    PARTITIONS_THAT_SETTINGS_COUNT,
)
from odradek.foundation.turns import Turn
from odradek.metadata.image.changes import topic_changes
from odradek.metadata.image.configs import log_config_values, topic_value
from odradek.metadata.image.image import ClusterImage, ImageHolder, PartitionImage, ResourceKind, TopicImage
from odradek.storage.config import LogConfig
from odradek.storage.directories.log_manager import LogManager
from odradek.storage.disk_space import is_shortage
from odradek.storage.log import Log

logger = logging.getLogger(__name__)


class HostedPartitions:
    """The partitions that this broker hosts, by topic and by topic id."""

    def __init__(
        self,
        *,
        broker_id: int,
        images: ImageHolder,
        log_manager: LogManager,
        flusher: Flusher,
        current_settings: Callable[[], Settings],
        clock: Clock | None = None,
    ) -> None:
        """`current_settings` gives the broker's settings as they are now: some change while it runs."""
        self.context = ReplicaContext(
            broker_id=broker_id,
            images=images,
            flusher=flusher,
            clock=clock or SystemClock(),
            current_settings=current_settings,
        )
        self.callbacks = PartitionCallbacks()
        self._broker_id = broker_id
        self._images = images
        self._log_manager = log_manager
        self._current_settings = current_settings
        self._partitions: dict[tuple[str, int], Partition] = {}
        self._names_by_id: dict[bytes, str] = {}
        self._failed: dict[tuple[str, int], Exception] = {}
        # The image that `_open_rest` is called for, and the partitions that it opens.
        self._prepared: ClusterImage | None = None
        self._unopened: Iterator[int] | None = None
        # Those of deleted topics whose files are not renamed away yet.
        self._unclosed: Iterator[int] | None = None
        # Those that a shortage, such as a full disk, keeps from being opened or from their role.
        self._short_of_space: set[TopicPartition] = set()
        # As written before this start, until each partition is opened.
        self._high_watermarks: dict[TopicPartition, int] = {}
        self._unsubscribe: Callable[[], None] | None = None

    def __len__(self) -> int:
        return len(self._partitions)

    def __iter__(self) -> Iterator[Partition]:
        return iter(list(self._partitions.values()))

    @property
    def acknowledgements(self) -> Acknowledgements:
        """Requests that wait for replicas."""
        return self.context.acknowledgements

    def start(self) -> None:
        """Open every partition that the image gives this broker, and follow the image from now on."""
        image = self._images.current
        # They may be old: a high watermark only grows, so an old one is true as well.
        self._high_watermarks = self._log_manager.read_high_watermarks()
        for topic in image.topics.values():
            self._open_topic(topic, image)
        self._log_manager.save_placement()
        self._high_watermarks = {
            key: offset for key, offset in self._high_watermarks.items() if key in self._short_of_space
        }
        self._unsubscribe = self._images.subscribe(
            self._apply_change, prepare=self._make_logs, complete=self._open_rest
        )

    def stop(self) -> None:
        """Cease to follow the image. The logs stay open: their directories close them."""
        self.context.acknowledgements.close()
        # A deletion that has begun is complete, so that its topic's logs are not closed as logs that stay.
        for _ in self._unclosed or ():
            pass
        self._unopened = self._unclosed = None
        if self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None

    # --- look-ups ------------------------------------------------------------------------------------------

    def get(self, topic: str, partition: int) -> Partition:
        """The partition, in any role.

        Raises UnknownTopicOrPartition, NotLeaderOrFollower when it is not hosted here, KafkaStorageError.
        """
        found = self._partitions.get((topic, partition))
        if found is not None:
            return found
        raise self._why_missing(topic, partition)

    def get_by_id(self, topic_id: TopicId, partition: int) -> Partition:
        """The partition of the topic with this id. Raises UnknownTopicId besides what `get` raises."""
        topic = self._images.current.topics_by_id.get(topic_id)
        if topic is None:
            raise UnknownTopicId(f"No topic has the id {topic_id}; refresh the metadata.")
        return self.get(topic.name, partition)

    def get_by_key(self, key: str | bytes, partition: int) -> Partition:
        """As `get` for a name, as `get_by_id` for the 16 bytes of a topic's id."""
        if isinstance(key, str):
            name = key
        else:
            known = self._names_by_id.get(key)
            if known is None:
                return self.get_by_id(uuid.UUID(bytes=key), partition)
            name = known
        found = self._partitions.get((name, partition))
        if found is not None:
            return found
        raise self._why_missing(name, partition)

    def find(self, topic: str, partition: int) -> Partition | None:
        """The partition, or None when it is not led here."""
        found = self._partitions.get((topic, partition))
        return None if found is None or (found.leader is None and found.gone is None) else found

    def _why_missing(self, topic: str, partition: int) -> Exception:
        failure = self._failed.get((topic, partition))
        if failure is not None:
            return KafkaStorageError(f"{topic}-{partition} is offline: {failure}")
        image = self._images.current.topics.get(topic)
        if image is None or not 0 <= partition < len(image.partitions):
            return UnknownTopicOrPartition(f"There is no partition {topic}-{partition}.")
        return NotLeaderOrFollower(
            f"Broker {self._broker_id} does not keep {topic}-{partition}; refresh the metadata."
        )

    # --- following the image -------------------------------------------------------------------------------

    async def _make_logs(self, new: ClusterImage) -> None:
        """Make the logs that `new` assigns to this broker, a few in a turn.

        Logs of an earlier topic of that name are left to the change itself. So are all after the first log that cannot
        be made: the change reports the reason.
        """
        changes = topic_changes(self._images.current, new)
        self._prepared = new
        made = 0
        for topic in (*changes.created, *(after for _, after in changes.changed)):
            config: LogConfig | None = None
            for partition in topic.partitions:
                key = TopicPartition(topic.name, partition.partition)
                if self._broker_id not in partition.replicas or self._log_manager.get(key) is not None:
                    continue
                config = config or self._log_config(topic.name, new)
                try:
                    self._log_manager.create(key, topic.id, config)
                except KafkaStorageError:
                    return
                made += 1
                if made % LOGS_MADE_PER_TURN_MAX == 0:
                    await asyncio.sleep(0)

    def _apply_change(self, old: ClusterImage, new: ClusterImage) -> None:
        # What was put off comes first: the change may be of the same partitions.
        for _ in self._unopened or ():
            pass
        changes = topic_changes(old, new)
        self._unclosed = self._closing(self._take_out(changes.deleted))
        self._unopened = chain(
            self._unclosed,
            self._opening([*((None, topic) for topic in changes.created), *changes.changed], new),
            self._reconfiguring(old.configs, new) if old.configs is not new.configs else (),
        )
        is_prepared, self._prepared = new is self._prepared, None
        left = PARTITIONS_OPENED_PER_TURN_MAX
        for cost in self._unopened:
            left -= cost
            if is_prepared and left <= 0:
                break
        else:
            self._unopened = self._unclosed = None
        self._log_manager.save_placement()

    async def _open_rest(self) -> None:
        """Do what `_apply_change` put off: some partitions in each turn of the loop. They are led a moment later."""
        if self._unopened is None:
            return
        rest, turn = self._unopened, Turn(PARTITIONS_OPENED_PER_TURN_MAX)
        await turn.next()
        for cost in rest:
            if turn.is_over(cost):
                await turn.next()
        self._log_manager.save_placement()

    def _opening(
        self, topics: Iterable[tuple[TopicImage | None, TopicImage]], image: ClusterImage
    ) -> Iterator[int]:
        """Open the topics, before and after the change. Each step is one partition, and gives how many it counts as.

        Coordinators look for their topics at once, and so get all of their partitions.
        """
        ordered = sorted(topics, key=lambda topic: not topic[1].is_internal)
        for before, topic in ordered:
            if topic.is_internal:
                self._open_topic(topic, image)
                yield 1
            else:
                yield from self._opening_topic(topic, image, before)

    def _open_topic(self, topic: TopicImage, image: ClusterImage) -> None:
        for _ in self._opening_topic(topic, image):
            pass

    def _opening_topic(
        self, topic: TopicImage, image: ClusterImage, before: TopicImage | None = None
    ) -> Iterator[int]:
        """Open the topic, one partition in each step; those that are as `before` have nothing to do."""
        config: LogConfig | None = None
        name, own_id, hosted = topic.name, self._broker_id, self._partitions
        self._names_by_id[topic.id.bytes] = name
        there = () if before is None else before.partitions
        for number, partition in enumerate(topic.partitions):
            was = there[number] if number < len(there) else None
            known = hosted.get((name, partition.partition))
            is_hosted = own_id in partition.replicas
            if partition is was and is_hosted is (known is not None) and not self._short_of_space:
                continue
            if not is_hosted:
                key = TopicPartition(name, partition.partition)
                self._forget_failure(key)
                if known is not None:
                    del hosted[key]
                    self._remove(known, known.mark_removed)
                yield 1 if known is None else PARTITIONS_THAT_A_DELETION_COUNTS
                continue
            is_made = False
            if known is None:
                if config is None:
                    config = self._log_config(name, image)
                    yield PARTITIONS_THAT_SETTINGS_COUNT
                is_made = self._log_manager.get(TopicPartition(name, partition.partition)) is None
                known = self._add(topic, partition, config, image)
            if known is not None:
                self._take_role(known, partition)
            yield PARTITIONS_THAT_A_NEW_LOG_COUNTS if is_made else 1

    def retry_offline(self) -> int:
        """Open the partitions that a shortage keeps offline, and give those their role that could not take it.

        Returns how many remain; the next change of their topics tries them again too.
        """
        image = self._images.current
        for name in sorted({key.topic for key in self._short_of_space}):
            topic = image.topics.get(name)
            if topic is not None:
                self._open_topic(topic, image)
        self._log_manager.save_placement()
        return len(self._short_of_space)

    def _take_role(self, partition: Partition, state: PartitionImage) -> None:
        key = partition.topic_partition
        try:
            partition.take_role(state)
        except KafkaStorageError as failure:
            self._note_shortage(key, failure, "cannot take its role")
            return
        if key in self._short_of_space:
            self._short_of_space.discard(key)
            logger.info("%s has its place on the disk again, and takes its role", key)

    def _note_shortage(self, key: TopicPartition, failure: Exception, what: str) -> None:
        """Log each reason once: the partition is tried often."""
        cause = failure if isinstance(failure, OSError) else failure.__cause__
        is_short = isinstance(cause, OSError) and is_shortage(cause)
        if not is_short or key not in self._short_of_space:
            advice = "; it is tried again" if is_short else ""
            logger.error("%s %s: %s%s", key, what, failure, advice)
        if is_short:
            self._short_of_space.add(key)
        else:
            self._short_of_space.discard(key)

    def _add(
        self, topic: TopicImage, partition: PartitionImage, config: LogConfig, image: ClusterImage
    ) -> Partition | None:
        topic_partition = TopicPartition(topic.name, partition.partition)
        try:
            log = self._log(topic_partition, topic.id, config)
        except (OSError, KafkaStorageError) as failure:
            self._note_shortage(topic_partition, failure, "stays offline")
            self._failed[topic_partition] = failure
            return None
        self._failed.pop(topic_partition, None)
        # All records of the only replica are committed; with others, those that the file says.
        high_watermark = log.log_end_offset
        noted = self._high_watermarks.pop(topic_partition, log.log_start_offset)
        if len(partition.replicas) > 1:
            high_watermark = noted
        added = self._partitions[topic_partition] = Partition(
            ReplicaStart(
                topic_partition=topic_partition,
                topic_id=topic.id,
                log=log,
                context=self.context,
                high_watermark=high_watermark,
                min_insync_replicas=self._min_insync_replicas(topic.name, image),
                is_unclean_election_allowed=self._is_unclean_election_allowed(topic.name, image),
            ),
            self.callbacks,
        )
        self._set_throttled(added, image)
        return added

    def _set_throttled(self, partition: Partition, image: ClusterImage) -> None:
        topic, number = partition.topic_partition
        texts = image.config(ResourceKind.TOPIC, topic)
        for side in ("leader", "follower"):
            key = f"{side}.replication.throttled.replicas"
            # Most topics have none, and to read a list costs more than to see that.
            entries = topic_value(key, texts, settings=self._current_settings()) if key in texts else ()
            is_named = is_throttled(entries, partition=number, broker_id=self._broker_id)
            setattr(partition.replica, f"is_throttled_as_{side}", is_named)

    def _log(self, topic_partition: TopicPartition, topic_id: TopicId, config: LogConfig) -> Log:
        log = self._log_manager.get(topic_partition)
        if log is not None and log.topic_id is not None and log.topic_id != topic_id:
            logger.warning(
                "%s on disk belongs to the deleted topic %s; it is removed for topic %s",
                topic_partition,
                log.topic_id,
                topic_id,
            )
            self._log_manager.delete(topic_partition)
            log = None
        if log is None:
            return self._log_manager.create(topic_partition, topic_id, config)
        if log.topic_id is None:
            log.adopt_topic_id(topic_id)
        log.reconfigure(config)
        return log

    def _take_out(self, topics: Iterable[TopicImage]) -> list[Partition]:
        """The partitions of deleted topics, which no request finds any more: a topic of the same name is another one.

        This is done at once, whatever is put off. So it is little for each partition.
        """
        found: list[Partition] = []
        for topic in topics:
            self._names_by_id.pop(topic.id.bytes, None)
            name = topic.name
            for number in range(len(topic.partitions)):
                partition = self._partitions.pop((name, number), None)
                if partition is not None:
                    found.append(partition)
            if self._failed or self._short_of_space or self._high_watermarks:
                for number in range(len(topic.partitions)):
                    self._forget_failure(TopicPartition(name, number))
        return found

    def _closing(self, partitions: list[Partition]) -> Iterator[int]:
        """Close the partitions of deleted topics and rename their files away, one in each step."""
        for partition in partitions:
            self._remove(partition, partition.mark_deleted)
            yield PARTITIONS_THAT_A_DELETION_COUNTS

    def _forget_failure(self, key: TopicPartition) -> None:
        self._failed.pop(key, None)
        self._short_of_space.discard(key)
        self._high_watermarks.pop(key, None)

    def _remove(self, partition: Partition, mark: Callable[[], None]) -> None:
        """The partition, which is found no more, ends: its requests are answered, and its files renamed away."""
        key = partition.topic_partition
        mark()
        self.callbacks.role_changed(partition)
        try:
            self._log_manager.delete(key)
        except (OSError, KafkaStorageError) as failure:
            logger.error("the files of %s could not be renamed away: %s", key, failure)

    def _reconfiguring(
        self, old: Mapping[tuple[ResourceKind, str], object], image: ClusterImage
    ) -> Iterator[int]:
        """Give changed settings to the logs, one in each step: those of one topic, or of all when a default changed."""
        new = image.configs
        groups = ResourceKind.GROUP
        changed = {
            key
            for key in old.keys() | new.keys()
            if key[0] is not groups and old.get(key) is not new.get(key)
        }
        everyone = any(kind is ResourceKind.BROKER for kind, _ in changed)
        names = (
            image.topics.keys()
            if everyone
            else {name for kind, name in changed if kind is ResourceKind.TOPIC}
        )
        for name in names:
            topic = image.topics.get(name)
            if topic is None:
                continue
            config = self._log_config(name, image)
            min_insync_replicas = self._min_insync_replicas(name, image)
            is_unclean_election_allowed = self._is_unclean_election_allowed(name, image)
            yield PARTITIONS_THAT_SETTINGS_COUNT
            for partition_image in topic.partitions:
                partition = self._partitions.get((name, partition_image.partition))
                if partition is not None:
                    partition.log.reconfigure(config)
                    partition.require_in_sync(min_insync_replicas)
                    partition.replica.is_unclean_election_allowed = is_unclean_election_allowed
                    self._set_throttled(partition, image)
                    yield 1

    def _log_config(self, topic: str, image: ClusterImage) -> LogConfig:
        texts = image.config(ResourceKind.TOPIC, topic)
        return LogConfig(**log_config_values(texts, settings=self._current_settings()))

    def _min_insync_replicas(self, topic: str, image: ClusterImage) -> int:
        texts = image.config(ResourceKind.TOPIC, topic)
        value: int = topic_value("min.insync.replicas", texts, settings=self._current_settings())
        return value

    def _is_unclean_election_allowed(self, topic: str, image: ClusterImage) -> bool:
        texts = image.config(ResourceKind.TOPIC, topic)
        return bool(topic_value("unclean.leader.election.enable", texts, settings=self._current_settings()))

    def configs_on_disk(self) -> Callable[[TopicPartition], LogConfig]:
        """The settings with which directories load their logs, by the current image."""
        image = self._images.current
        return lambda topic_partition: self._log_config(topic_partition.topic, image)

    # --- trouble -------------------------------------------------------------------------------------------

    def take_offline(self, path: str, reason: str) -> None:
        """Take every partition of the log directory `path` offline, which failed for that reason."""
        for key, partition in list(self._partitions.items()):
            if partition.log.parent_directory == path and partition.gone is None:
                partition.mark_offline(reason)
                self.callbacks.role_changed(partition)
                self._failed[key] = partition.gone or KafkaStorageError(str(partition.topic_partition))
