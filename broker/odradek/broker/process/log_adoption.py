"""Compares the log directories with the registry, at the start of a single node.

Each difference has its own treatment:

    topic whose deletion was interrupted    its logs are removed, then the rest of its nodes
    topic that the registry does not know   adopted, as when Apache Kafka wrote the directory. Producer ids that were
                                            used are not allocated again. Its settings come from
                                            the metadata log (`kraft_metadata`). With the first topics come users,
                                            quotas and access control lists (`access_takeover`).
    log after an unclean stop               a new leader epoch, so that readers of lost records notice

Two producers of one id take each other's batches for duplicates, and fence each other. An id may be in use although no
log of records has it: its batches have expired, or its transactional id has not written yet. So used producer ids are
in three places:

    the producers of each log                the ids that have written within a day
    the transaction log                      the ids of transactional ids, used or not
    the metadata log that Kafka leaves       the next id that Kafka would have allocated
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from odradek.broker.process import late
from odradek.foundation.errors import CorruptRecord, RequestError
from odradek.metadata.controller.controller import Controller
from odradek.metadata.controller.requests import AlterConfigOp, ConfigOperation, Resource
from odradek.metadata.image.image import ImageHolder, ResourceKind
from odradek.metadata.image.topic_names import TRANSACTION_STATE
from odradek.storage.directories.log_manager import LogManager
from odradek.storage.files import Disk
from odradek.storage.log import Log
from odradek.wire.records.batch import split
from odradek.wire.records.record import records

if TYPE_CHECKING:
    from odradek.broker.process.kraft_metadata import KraftMetadata

logger = logging.getLogger(__name__)

NONE: Final = -1
_READ_BYTES: Final = 1 << 20


async def adopt_logs(
    log_manager: LogManager,
    controller: Controller,
    images: ImageHolder,
    *,
    disk: Disk,
    has_authorizer: bool = False,
) -> None:
    """Bring the logs on disk and the registry together. `has_authorizer` is whether access control lists decide.

    Raises StoreError, KafkaStorageError, OSError.
    """
    await _finish_deletions(log_manager, controller)
    unknown: dict[str, list[Log]] = {}
    doubtful = []
    for log in log_manager.logs():
        if log.topic_partition.topic not in images.current.topics:
            unknown.setdefault(log.topic_partition.topic, []).append(log)
        elif log_manager.may_have_lost(log):
            doubtful.append(log.topic_partition)
    if unknown:
        is_first = not images.current.topics
        metadata = await _adopt(unknown, controller, images, log_manager.directories.paths, disk)
        if is_first:
            takeover = late.AccessTakeover(controller, images, has_authorizer=has_authorizer)
            await takeover.take_over(metadata.access)
    if doubtful:
        await controller.bump_leader_epochs(doubtful)


async def _adopt(
    unknown: Mapping[str, Sequence[Log]],
    controller: Controller,
    images: ImageHolder,
    paths: Iterable[str],
    disk: Disk,
) -> KraftMetadata:
    """Take topics into the registry, with what was used and set in the directory that they come from.

    Returns the metadata of that directory.
    """
    # Imported here: only the directory of another broker needs them.
    metadata = late.read_kraft_metadata(disk, paths)
    for topic, logs in unknown.items():
        epoch_min = highest_coordinator_epoch(unknown) if topic == TRANSACTION_STATE else -1
        await _register(topic, logs, controller, epoch_min=epoch_min)
    used = await highest_producer_id(unknown, metadata)
    if used >= 0:
        # A new producer's batches would look like those of the old one.
        await controller.allocate_producer_ids(above=used)
    await _take_over_settings(unknown, controller, images, metadata)
    return metadata


async def _take_over_settings(
    unknown: Iterable[str], controller: Controller, images: ImageHolder, metadata: KraftMetadata
) -> None:
    """Give topics the settings that they had in Kafka: retention must not delete from a compacted topic."""
    # Imported here: only the directory of another broker needs them.
    if metadata.protection:
        logger.warning(
            "the Kafka that wrote this directory was protected by %s, which this broker does not have: every client "
            "that reaches it may do everything. Let only trusted clients reach the listeners",
            ", ".join(metadata.protection),
        )
    known = metadata.settings
    for name in unknown:
        topic = images.current.topics.get(name)
        if topic is None or topic.is_internal:
            continue
        # One by one: an unknown key must not keep the others from being set.
        for key, text in known.get(name, {}).items():
            change = AlterConfigOp(key, ConfigOperation.SET, text)
            wanted = (Resource(ResourceKind.TOPIC, name), [change])
            (refused,) = await controller.incremental_alter_configs([wanted])
            if refused is None:
                logger.warning("the topic %s keeps Kafka's setting %s=%s", name, key, text)
            else:
                logger.error("the topic %s loses Kafka's setting %s=%s: %s", name, key, text, refused)


async def _finish_deletions(log_manager: LogManager, controller: Controller) -> None:
    deleted = controller.pending_deletions
    if not deleted:
        return
    for log in log_manager.logs():
        topic_id = deleted.get(log.topic_partition.topic)
        if topic_id is not None and log.topic_id in (None, topic_id):
            log_manager.delete(log.topic_partition)
    await controller.complete_deletions()


async def _register(topic: str, logs: Sequence[Log], controller: Controller, *, epoch_min: int) -> None:
    """Leadership begins above the epochs of the logs, and above `epoch_min`."""
    count = 1 + max(log.topic_partition.partition for log in logs)
    try:
        await controller.register_existing(
            topic,
            topic_id=next((log.topic_id for log in logs if log.topic_id is not None), None),
            partition_count=count,
            leader_epochs={
                log.topic_partition.partition: max(log.epochs.latest_epoch, epoch_min) for log in logs
            },
        )
    except RequestError as error:
        logger.error("the logs of %s on disk are not adopted: %s", topic, error)
        return
    logger.warning(
        "the topic %s with %d partitions was found on disk and added to the registry", topic, count
    )


async def highest_producer_id(logs: Mapping[str, Sequence[Log]], metadata: KraftMetadata) -> int:
    """The highest producer id that was used in these logs, by topic; -1 for none. Raises OSError."""
    found = metadata.next_producer_id - 1
    for topic, of_topic in logs.items():
        for log in of_topic:
            found = max([found, *(entry.producer_id for entry in log.producers.entries())])
            if topic == TRANSACTION_STATE:
                async for producer_id in _of_transactional_ids(log):
                    found = max(found, producer_id)
    return found


def highest_coordinator_epoch(logs: Mapping[str, Sequence[Log]]) -> int:
    """The highest coordinator epoch of the markers in these logs, -1 for none.

    A coordinator that stopped between a marker and its own record has left no such epoch in the transaction log. The
    next one must be above it, or the leaders refuse its markers.
    """
    return max(
        (
            entry.coordinator_epoch
            for of_topic in logs.values()
            for log in of_topic
            for entry in log.producers.entries()
        ),
        default=NONE,
    )


async def _of_transactional_ids(log: Log) -> AsyncIterator[int]:
    """The producer ids in a partition of the transaction log, up to a record that cannot be read."""
    # Imported here: only the directory of another broker needs it.
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        data = log.read(offset, bytes_max=_READ_BYTES, at_least_one_batch=True).read()
        try:
            for batch in split(memoryview(data), may_be_cut=True):
                offset = batch.last_offset + 1
                for record in () if batch.is_control else records(batch):
                    if (
                        record.key is None
                        or record.value is None
                        or late.kind_of(record.key) != late.KIND_TRANSACTION
                    ):
                        continue
                    value = late.decode_value(record.value)
                    yield max(value.producer_id, value.previous_producer_id, value.next_producer_id)
        except CorruptRecord as error:
            logger.error(
                "the producer ids in %s are not known from offset %d on: %s",
                log.topic_partition,
                offset,
                error,
            )
            return
        await asyncio.sleep(0)
