"""All partitions as the active controller sees them, and the one way to write new states of them.

A state goes to the registry in a write of bounded size, together with the replicas that are eligible to lead
(`eligible`). Where a partition's replicas change, the topic's node is in the same write, so that no broker reads the
one without the other.

What it leaves out: what the states should be (`leader_election`,
`reassignment_steps`), and when (`leadership`, `partition_reassignment`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from odradek.foundation.errors import UnknownTopicOrPartition
from odradek.foundation.ids import TopicPartition
from odradek.foundation.limits import PARTITION_STATES_PER_WRITE_MAX
from odradek.foundation.turns import Turn
from odradek.metadata.controller import eligible_replicas
from odradek.metadata.controller.registry_writer import RegistryWriter
from odradek.metadata.image import nodes, paths
from odradek.metadata.image.image import NO_LEADER, ClusterImage, ImageHolder, PartitionImage, ResourceKind
from odradek.metadata.registry.store import Create, Operation, Put, size_bytes

Rule = Callable[[str, PartitionImage], PartitionImage | None]
State = tuple[TopicPartition, PartitionImage]

# About what a topic's node holds of one partition: its number, its replicas, and two more lists while it moves.
_REPLICAS_BYTES: Final = 40
_ASSIGNMENT_BYTES_MAX: Final = 500


class PartitionStates:
    """To be used within a decision of the controller only."""

    def __init__(self, writer: RegistryWriter, images: ImageHolder) -> None:
        self._writer = writer
        self._images = images

    def __iter__(self) -> Iterator[State]:
        for topic in self._images.current.topics.values():
            for partition in topic.partitions:
                yield TopicPartition(topic.name, partition.partition), partition

    def find(self, where: TopicPartition) -> PartitionImage:
        """The partition as it is. Raises UnknownTopicOrPartition."""
        topic = self._images.current.topics.get(where.topic)
        if topic is None or not 0 <= where.partition < len(topic.partitions):
            raise UnknownTopicOrPartition(f"There is no partition {where}.")
        return topic.partitions[where.partition]

    async def apply_to_all(
        self, rule: Rule, *, lost: Collection[int] = (), image: ClusterImage | None = None
    ) -> None:
        """Write what `rule` returns for each partition, where that is not None; `lost` and `image` as in `write`."""
        found: list[State] = []
        turn = Turn()
        # Only a decision changes which partitions there are.
        for where, partition in self:
            if turn.is_over():
                await turn.next()
            if (after := rule(where.topic, partition)) is not None:
                found.append((where, after))
        await self.write(found, lost=lost, image=image)

    async def before_settings(self, kind: ResourceKind, name: str, after: Mapping[str, str]) -> None:
        """Before settings change, remove the replicas that only the old settings made eligible to lead."""
        image = self._images.current
        if not eligible_replicas.decides_eligibility(kind, image.config(kind, name), after):
            return
        image = replace(image, configs={**image.configs, (kind, name): after})
        await self.write(
            [
                (where, partition)
                for where, partition in self
                if (partition.elr or partition.last_known_elr)
                and partition.leader != NO_LEADER
                and eligible_replicas.is_enough(
                    partition, min_in_sync=eligible_replicas.min_in_sync(image, where.topic, partition.leader)
                )
            ],
            image=image,
        )

    async def write(
        self, states: Iterable[State], *, lost: Collection[int] = (), image: ClusterImage | None = None
    ) -> None:
        """Write states of partitions, each partition once; `partition_epoch` is the version that each replaces.

        `lost` are brokers that may lack what they acknowledged. `image` is the cluster by whose brokers and settings
        replicas are eligible to lead, the present one by default.
        """
        wanted = await self._with_eligible(states, lost=lost, image=image or self._images.current)
        for operations in self._writes(wanted):
            await self._writer.write(operations)

    async def _with_eligible(
        self, states: Iterable[State], *, lost: Collection[int], image: ClusterImage
    ) -> list[State]:
        needed: dict[tuple[str, int], int] = {}
        found: list[State] = []
        turn = Turn()
        for where, state in states:
            if turn.is_over():
                await turn.next()
            key = where.topic, state.leader
            if key not in needed:
                needed[key] = eligible_replicas.min_in_sync(image, *key)
            after = eligible_replicas.remember_eligible(
                self.find(where), state, min_in_sync=needed[key], lost=lost
            )
            found.append((where, after))
        return found

    def _writes(self, states: Iterable[State]) -> Iterator[list[Operation]]:
        """As many states at a time as one write takes, with the nodes of topics that go along."""
        bytes_max = self._writer.write_bytes_max
        part: list[State] = []
        operations: list[Operation] = []
        part_bytes = 0
        moved: set[str] = set()
        for where, state in states:
            own = self._operations(where, state)
            own_bytes = sum(map(size_bytes, own))
            topic_bytes = self._topic_bytes(where.topic) if self._is_moved(where, state) else 0
            if topic_bytes:
                own_bytes += _ASSIGNMENT_BYTES_MAX + (0 if where.topic in moved else topic_bytes)
            is_too_much = bytes_max is not None and part_bytes + own_bytes > bytes_max
            if part and (is_too_much or len(part) == PARTITION_STATES_PER_WRITE_MAX):
                yield [*self._assignments(part), *operations]
                if where.topic in moved:
                    own_bytes += topic_bytes
                part, operations, part_bytes, moved = [], [], 0, set()
            part.append((where, state))
            operations += own
            part_bytes += own_bytes
            if topic_bytes:
                moved.add(where.topic)
        if part:
            yield [*self._assignments(part), *operations]

    def _topic_bytes(self, name: str) -> int:
        """About how large the topic's node is, but for what moves."""
        return size_bytes(Put(paths.topic(name), b"")) + _REPLICAS_BYTES * len(
            self._images.current.topics[name].partitions
        )

    def _is_moved(self, where: TopicPartition, state: PartitionImage) -> bool:
        """Whether the partition gets other replicas, which its topic's node says."""
        before = self._images.current.topics[where.topic].partitions[where.partition]
        return (state.replicas, state.adding, state.removing) != (
            before.replicas,
            before.adding,
            before.removing,
        )

    def _assignments(self, states: Sequence[State]) -> list[Operation]:
        """The nodes of topics of which partitions get other replicas."""
        topics = self._images.current.topics
        moved: dict[str, list[PartitionImage]] = {}
        for where, state in states:
            if self._is_moved(where, state):
                partitions = moved.setdefault(where.topic, list(topics[where.topic].partitions))
                partitions[where.partition] = state
        return [
            Put(paths.topic(name), nodes.write_topic(topics[name].id, partitions))
            for name, partitions in moved.items()
        ]

    def _operations(self, where: TopicPartition, state: PartitionImage) -> list[Operation]:
        data = nodes.write_partition_state(state, controller_epoch=self._writer.term.epoch)
        path = paths.partition_state(where.topic, where.partition)
        if state.partition_epoch >= 0:
            return [Put(path, data, state.partition_epoch)]
        return [Create(paths.partition(where.topic, where.partition)), Create(path, data)]
