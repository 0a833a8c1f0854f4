"""Topics as the brokers have them, many at once, and the steps that change them.

One read of a thousand topics is a Metadata request, ten DescribeConfigs and a ListPartitionReassignments. Offsets and
sizes take two ListOffsets to each leader and a DescribeLogDirs to each broker more. What one topic is refused fails
for it alone; what concerns the cluster is raised.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final, TypeVar

from odradek.client.admin.admin import Admin
from odradek.client.admin.logs import EARLIEST, LATEST
from odradek.client.admin.reassignments import OngoingReassignment
from odradek.client.client import Client
from odradek.client.errors import ClientTimeout, ConnectionFailed
from odradek.client.metadata import NO_LEADER, TopicInfo
from odradek.client.results import (
    AlterOperation,
    ConfigChange,
    ConfigEntry,
    ConfigSource,
    ResourceType,
    TopicSpec,
)
from odradek.foundation.errors import OdradekError, UnknownTopicOrPartition
from odradek.foundation.ids import TopicPartition
from odradek_operator.gateways.topic_values import (
    ActualPartition,
    ActualTopic,
    AlterConfig,
    CreateTopic,
    DeleteTopic,
    Grow,
    Measures,
    OnBrokers,
    Reassign,
)

logger = logging.getLogger(__name__)
T = TypeVar("T")

# So many topics in one request about configs or to make: a broker answers others in between.
TOPICS_PER_REQUEST: Final = 100
PARTITIONS_PER_REQUEST: Final = 2_000


@dataclass(frozen=True, slots=True)
class TopicsSeen:
    """The result of a read: racks by broker id, and each topic.

    A topic is None where it does not exist, and an error where reading it was refused.
    """

    brokers: Mapping[int, str | None]
    topics: Mapping[str, ActualTopic | OdradekError | None]


class BrokerTopics:
    """Topics of one cluster."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._admin = Admin(client)

    # --- looking ------------------------------------------------------------------------------------------------------

    async def describe(self, names: Iterable[str]) -> TopicsSeen:
        """These topics now. Raises OdradekError when the cluster cannot be asked."""
        wanted = sorted(set(names))
        self._client.invalidate()
        try:
            cluster = await self._client.refresh(wanted)
        except (ConnectionFailed, ClientTimeout):
            # A connection that was kept may have been lost since; a cluster that is not there is not waited for.
            cluster = await self._client.refresh(wanted)
        infos: dict[str, TopicInfo] = {}
        topics: dict[str, ActualTopic | OdradekError | None] = {}
        for name in wanted:
            info = cluster.topics.get(name)
            failure = None if info is None else info.error()
            if info is None or isinstance(failure, UnknownTopicOrPartition):
                topics[name] = None
            elif failure is not None:
                topics[name] = failure
            else:
                infos[name] = info
        configs = await self._describe_configs(list(infos))
        moving = await self._admin.reassignments.under_way() if infos else {}
        for name, info in infos.items():
            config = configs.get(name)
            if config is None or isinstance(config, UnknownTopicOrPartition):
                topics[name] = None  # deleted in between
            elif isinstance(config, OdradekError):
                topics[name] = config
            else:
                topics[name] = _actual_topic(info, config, moving)
        return TopicsSeen({broker.id: broker.rack for broker in cluster.brokers.values()}, topics)

    async def find_machines(self) -> Mapping[int, str]:
        """The machines of brokers that share one."""
        return await self._admin.brokers.machines()

    async def _describe_configs(self, names: Sequence[str]) -> dict[str, list[ConfigEntry] | OdradekError]:
        found: dict[str, list[ConfigEntry] | OdradekError] = {}
        for some in _split(names, TOPICS_PER_REQUEST):
            found |= await self._admin.configs.describe_many(ResourceType.TOPIC, some)
        return found

    async def measure(self, topics: Iterable[ActualTopic]) -> dict[str, dict[int, Measures]]:
        """Offsets and sizes by topic and partition, of those that have a leader. What cannot be had now is left out."""
        leaders = {
            TopicPartition(topic.name, partition.number): partition.leader
            for topic in topics
            for partition in topic.partitions
            if partition.leader != NO_LEADER
        }
        found: dict[str, dict[int, Measures]] = {}
        for some in _split(leaders, PARTITIONS_PER_REQUEST):
            try:
                for (topic, number), measures in (await self._measure(some, leaders)).items():
                    found.setdefault(topic, {})[number] = measures
            except OdradekError as failure:
                logger.info("offsets and sizes of %d partitions are left out: %s", len(some), failure)
        return found

    async def _measure(
        self, partitions: Sequence[TopicPartition], leaders: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, Measures]:
        starts = await self._admin.logs.list_offsets(dict.fromkeys(partitions, EARLIEST))
        ends = await self._admin.logs.list_offsets(dict.fromkeys(partitions, LATEST))
        sizes = {
            where: size.size_bytes
            for directory in await self._admin.logs.describe_log_dirs(partitions)
            for where, size in directory.replicas.items()
            if directory.broker_id == leaders.get(where)
        }
        return {
            where: Measures(starts[where].offset, ends[where].offset, sizes.get(where))
            for where in partitions
        }

    # --- changing -----------------------------------------------------------------------------------------------------

    async def carry_out(self, steps: Sequence[OnBrokers]) -> dict[str, OdradekError]:
        """Take the steps, alike ones together. The answer is what was refused, by topic; a topic whose step fails
        has its later steps left out.
        """
        refused: dict[str, OdradekError] = {}
        for some in _split([step for step in steps if isinstance(step, CreateTopic)], TOPICS_PER_REQUEST):
            refused |= await self._create(some)
        for changed in _split([step for step in steps if isinstance(step, AlterConfig)], TOPICS_PER_REQUEST):
            refused |= await self._alter(changed)
        for step in steps:
            if isinstance(step, Grow) and step.topic not in refused:
                try:
                    await self._admin.topics.create_partitions(step.topic, total=step.total)
                except OdradekError as failure:
                    refused[step.topic] = failure
        moves = [step for step in steps if isinstance(step, Reassign) and step.topic not in refused]
        if moves:
            refused |= await self._reassign(moves)
        gone = [step.topic for step in steps if isinstance(step, DeleteTopic)]
        for names in _split(gone, TOPICS_PER_REQUEST):
            outcomes = await self._admin.topics.delete_many(names)
            refused |= {
                name: failure
                for name, failure in outcomes.items()
                if failure is not None and not isinstance(failure, UnknownTopicOrPartition)
            }
        return refused

    async def _create(self, steps: Sequence[CreateTopic]) -> dict[str, OdradekError]:
        specs = [
            TopicSpec(
                name=step.topic,
                partitions=step.partitions,
                replication_factor=step.replicas,
                configs=step.config,
            )
            for step in steps
        ]
        outcomes = await self._admin.topics.create_many(specs)
        return {name: outcome for name, outcome in outcomes.items() if isinstance(outcome, OdradekError)}

    async def _alter(self, steps: Sequence[AlterConfig]) -> dict[str, OdradekError]:
        changes = {
            step.topic: [
                ConfigChange(key, text, AlterOperation.DELETE if text is None else AlterOperation.SET)
                for key, text in step.changes.items()
            ]
            for step in steps
        }
        outcomes = await self._admin.configs.alter_many(ResourceType.TOPIC, changes)
        return {name: failure for name, failure in outcomes.items() if failure is not None}

    async def _reassign(self, steps: Sequence[Reassign]) -> dict[str, OdradekError]:
        moves = {
            TopicPartition(step.topic, number): replicas
            for step in steps
            for number, replicas in step.replicas.items()
        }
        refused: dict[str, OdradekError] = {}
        for where, failure in (await self._admin.reassignments.reassign(moves)).items():
            if failure is not None:
                refused.setdefault(where.topic, failure)
        return refused


def _actual_topic(
    info: TopicInfo,
    config: Iterable[ConfigEntry],
    moving: Mapping[TopicPartition, OngoingReassignment],
) -> ActualTopic:
    partitions = tuple(
        ActualPartition(
            number=partition.partition,
            leader=partition.leader,
            replicas=partition.replicas,
            in_sync=partition.in_sync_replicas,
        )
        for partition in info.partitions
    )
    if moving:
        partitions = tuple(
            replace(partition, adding=found.adding, removing=found.removing)
            if (found := moving.get(TopicPartition(info.name, partition.number))) is not None
            else partition
            for partition in partitions
        )
    own = {
        entry.name: entry.value
        for entry in config
        if entry.source is ConfigSource.TOPIC and entry.value is not None
    }
    return ActualTopic(name=info.name, id=info.id, partitions=partitions, config=own)


def _split(whole: Iterable[T], size: int) -> Iterator[list[T]]:
    remaining = iter(whole)
    while piece := list(islice(remaining, size)):
        yield piece
