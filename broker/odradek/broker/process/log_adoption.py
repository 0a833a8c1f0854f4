"""Compares the log directories with the registry, at the start of a single node.

Each difference has its own treatment:

    topic whose deletion was interrupted    its logs are removed, then the rest of its nodes
    topic that the registry does not know   adopted, as when Apache Kafka wrote the directory. Producer ids that were
                                            used are not allocated again (`used_producer_ids`). Its settings come from
                                            the metadata log (`kraft_metadata`). With the first topics come users,
                                            quotas and access control lists (`access_takeover`).
    log after an unclean stop               a new leader epoch, so that readers of lost records notice
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from odradek.foundation.errors import RequestError
from odradek.metadata.controller.controller import Controller
from odradek.metadata.image.image import ImageHolder, ResourceKind
from odradek.metadata.image.topic_names import TRANSACTION_STATE
from odradek.storage.directories.log_manager import LogManager
from odradek.storage.files import Disk
from odradek.storage.log import Log

if TYPE_CHECKING:
    from odradek.broker.process.kraft_metadata import KraftMetadata

logger = logging.getLogger(__name__)


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
            from odradek.broker.process.access_takeover import AccessTakeover

            takeover = AccessTakeover(controller, images, has_authorizer=has_authorizer)
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
    from odradek.broker.process.kraft_metadata import read_kraft_metadata
    from odradek.broker.process.used_producer_ids import highest_coordinator_epoch, highest_producer_id

    metadata = read_kraft_metadata(disk, paths)
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
    from odradek.metadata.controller.requests import AlterConfigOp, ConfigOperation, Resource

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
