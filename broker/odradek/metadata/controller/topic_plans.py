"""The results of requests for topics or partitions, before anything is written: pure, with all the rules."""

from __future__ import annotations

import random
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping

from odradek.foundation.errors import (
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidRequest,
    InvalidTopic,
    PolicyViolation,
    RequestError,
    TopicAlreadyExists,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from odradek.foundation.ids import TopicId, TopicPartition
from odradek.foundation.limits import NEW_PARTITIONS_PER_REQUEST_MAX
from odradek.foundation.named_tuple import NamedTuple
from odradek.foundation.settings.broker_settings import Settings
from odradek.foundation.turn_limits import (
    PARTITIONS_PLANNED_PER_TURN_MAX,
)
from odradek.foundation.turn_limits import (
    PARTITIONS_THAT_A_TOPIC_COUNTS as PARTITIONS_THAT_A_TOPIC_COUNTS,
)
from odradek.foundation.turns import Turn
from odradek.metadata.controller.requests import USE_DEFAULT, NewPartitions, NewTopic, TopicMetadataAndConfig
from odradek.metadata.image import nodes, paths
from odradek.metadata.image.configs import validate_topic_config
from odradek.metadata.image.cordons import PlaceableBrokers, placeable
from odradek.metadata.image.image import ClusterImage, PartitionImage, TopicImage
from odradek.metadata.image.placement import check_assignment, placements
from odradek.metadata.image.topic_names import is_internal_topic, validate_topic_name
from odradek.metadata.registry.store import Create, Operation, Put


class TopicPlan(NamedTuple):
    """A topic that may be made as it is: its image and the texts of its settings."""

    topic: TopicImage
    config: Mapping[str, str]


def new_topic_id(rng: random.Random) -> TopicId:
    """A random id that is none of Kafka's reserved ones and does not begin with '-' when printed.

    Kafka keeps 0 and 1 for itself, and an id with a dash in front would read as an option on a command line.
    """
    while True:
        topic_id = uuid.UUID(int=rng.getrandbits(128), version=4)
        if topic_id.int > 1 and not nodes.topic_id_text(topic_id).startswith("-"):
            return topic_id


def planning_turn() -> Turn:
    """Counts new partitions, and a topic as some more."""
    return Turn(PARTITIONS_PLANNED_PER_TURN_MAX)


async def plan_topic(
    request: NewTopic,
    *,
    image: ClusterImage,
    collisions: Mapping[str, str],
    settings: Settings,
    rng: random.Random,
    turn: Turn,
    eligible: Collection[int] | None = None,
) -> TopicPlan:
    """Raises the RequestError that answers a topic that may not be. `collisions` are topics by collision key.

    Each partition counts in `turn`. `eligible` are the brokers that may lead, by default all that are alive.
    """
    check_new_name(request.name, image=image, collisions=collisions)
    brokers = placeable(image, eligible=eligible)
    replicas: Iterable[tuple[int, ...]]
    if request.assignment:
        replicas = _take_given_replicas(request, brokers=brokers)
    else:
        replicas = _choose_replicas(request, brokers=brokers, settings=settings, rng=rng)
    config = validate_topic_config(request.config, settings=settings)
    return TopicPlan(
        topic=TopicImage(
            name=request.name,
            id=new_topic_id(rng),
            partitions=tuple(await _new_partitions(replicas, turn, active=brokers.active)),
            is_internal=is_internal_topic(request.name),
        ),
        config=config,
    )


async def _new_partitions(
    replicas: Iterable[tuple[int, ...]], turn: Turn, *, active: Collection[int], first: int = 0
) -> list[PartitionImage]:
    partitions: list[PartitionImage] = []
    for number, brokers in enumerate(replicas, start=first):
        if turn.is_over():
            await turn.next()
        partitions.append(new_partition(number, brokers, active=active))
    return partitions


def check_new_name(name: str, *, image: ClusterImage, collisions: Mapping[str, str]) -> None:
    """Raises InvalidTopic or TopicAlreadyExists for a name that cannot be given to a new topic."""
    validate_topic_name(name)
    if name in image.topics:
        raise TopicAlreadyExists(f"Topic '{name}' already exists.")
    if "." in name or "_" in name:
        other = collisions.get(name.replace(".", "_"))
        if other is not None and other != name:
            raise InvalidTopic(
                f"Topic '{name}' collides with existing topic: {other}; names that differ only in '.' and '_' are one "
                "name in metrics"
            )


def _take_given_replicas(request: NewTopic, *, brokers: PlaceableBrokers) -> list[tuple[int, ...]]:
    if request.replication_factor != USE_DEFAULT:
        raise InvalidRequest(
            "A manual partition assignment was specified, but replication factor was not set to -1."
        )
    if request.partition_count != USE_DEFAULT:
        raise InvalidRequest(
            "A manual partition assignment was specified, but numPartitions was not set to -1."
        )
    count = len(request.assignment)
    if sorted(request.assignment) != list(range(count)):
        raise InvalidReplicaAssignment(
            f"the assignment names the partitions {sorted(request.assignment)}; they must be 0 to {count - 1} "
            "without gaps"
        )
    assignment = [tuple(request.assignment[number]) for number in range(count)]
    return check_assignment(
        assignment, brokers=brokers.racks, active=brokers.active, machines=brokers.machines
    )


def _choose_replicas(
    request: NewTopic, *, brokers: PlaceableBrokers, settings: Settings, rng: random.Random
) -> Iterator[tuple[int, ...]]:
    count, factor = request.partition_count, request.replication_factor
    if count < USE_DEFAULT or count == 0:
        raise InvalidPartitions(
            f"Number of partitions was set to an invalid non-positive value ({count}); "
            "give at least 1, or -1 for the broker's num.partitions"
        )
    if factor < USE_DEFAULT or factor == 0:
        raise InvalidReplicationFactor(
            f"Replication factor must be larger than 0, or -1 to use the default value; it is {factor}."
        )
    # Checked before placing: a number such as two billion would take the memory of as many partitions.
    check_partition_count(count)
    return placements(
        brokers.active,
        away=brokers.away,
        machines=brokers.machines,
        partition_count=settings.num_partitions if count == USE_DEFAULT else count,
        replication_factor=settings.default_replication_factor if factor == USE_DEFAULT else factor,
        rng=rng,
    )


def new_partition(
    number: int, replicas: tuple[int, ...], *, active: Collection[int], leader_epoch: int = 0
) -> PartitionImage:
    """A new partition: the first active replica leads, and all active ones are in sync, since all are empty.

    A replica that is away joins when it is back, as any follower does.
    """
    isr = tuple(broker for broker in replicas if broker in active)
    return PartitionImage(
        partition=number,
        leader=isr[0],
        leader_epoch=leader_epoch,
        replicas=replicas,
        isr=isr,
        partition_epoch=0,
    )


def check_partition_count(count: int) -> None:
    """Raises PolicyViolation when one request makes too many partitions."""
    if count > NEW_PARTITIONS_PER_REQUEST_MAX:
        raise PolicyViolation(
            f"Excessively large number of partitions per request: {count}; at most "
            f"{NEW_PARTITIONS_PER_REQUEST_MAX} are made at once, so ask in several requests"
        )


def creation_operations(plan: TopicPlan, *, controller_epoch: int) -> Iterator[list[Operation]]:
    """The registry's writes that create a topic, in groups that may be written one after the other. A topic whose
    partitions do not all have states is completed by the next controller's first elections.
    """
    topic = plan.topic
    yield [
        Create(paths.config("topics", topic.name), nodes.write_config(plan.config)),
        Create(paths.topic(topic.name), nodes.write_topic(topic.id, topic.partitions)),
        Create(paths.topic_partitions(topic.name)),
    ]
    for partition in topic.partitions:
        yield partition_operations(topic.name, partition, controller_epoch=controller_epoch)


def partition_operations(name: str, partition: PartitionImage, *, controller_epoch: int) -> list[Operation]:
    """The registry's writes that make one partition."""
    return [
        Create(paths.partition(name, partition.partition)),
        Create(
            paths.partition_state(name, partition.partition),
            nodes.write_partition_state(partition, controller_epoch=controller_epoch),
        ),
    ]


async def plan_growth(
    request: NewPartitions,
    *,
    image: ClusterImage,
    rng: random.Random,
    turn: Turn,
    eligible: Collection[int] | None = None,
) -> TopicImage:
    """The topic with its new partitions. Raises the RequestError that answers a growth that may not be.

    Each new partition counts in `turn`. `eligible` are the brokers that may lead, by default all that are alive.
    """
    topic = image.topics.get(request.topic)
    if topic is None:
        raise UnknownTopicOrPartition(f"This server does not host the topic {request.topic}.")
    there = len(topic.partitions)
    if request.total_count == there:
        raise InvalidPartitions(f"Topic already has {there} partition(s).")
    if request.total_count < there:
        raise InvalidPartitions(
            f"The topic {request.topic} currently has {there} partition(s); {request.total_count} would not be an "
            "increase, and partitions cannot be taken away."
        )
    check_partition_count(request.total_count - there)
    brokers = placeable(image, eligible=eligible)
    first = topic.partitions[0]
    factor = len(first.replicas) - len(first.adding)
    replicas: Iterable[tuple[int, ...]]
    if request.assignments is None:
        replicas = placements(
            brokers.active,
            away=brokers.away,
            machines=brokers.machines,
            partition_count=request.total_count - there,
            replication_factor=factor,
            rng=rng,
            leaders=[partition.replicas[0] for partition in topic.partitions],
        )
    else:
        replicas = _take_given_growth(
            request, added=request.total_count - there, factor=factor, first=there, brokers=brokers
        )
    added = await _new_partitions(replicas, turn, active=brokers.active, first=there)
    return TopicImage(topic.name, topic.id, (*topic.partitions, *added), topic.is_internal)


def _take_given_growth(
    request: NewPartitions, *, added: int, factor: int, first: int, brokers: PlaceableBrokers
) -> list[tuple[int, ...]]:
    assert request.assignments is not None
    if len(request.assignments) != added:
        raise InvalidReplicaAssignment(
            f"Attempted to add {added} additional partition(s), but {len(request.assignments)} assignment(s) "
            "were specified."
        )
    replicas = check_assignment(
        [tuple(listed) for listed in request.assignments],
        brokers=brokers.racks,
        active=brokers.active,
        machines=brokers.machines,
        first=first,
    )
    if len(replicas[0]) != factor:
        raise InvalidReplicaAssignment(
            f"the topic's partitions have {factor} replica(s) and the new ones are given {len(replicas[0])}; "
            "give as many"
        )
    return replicas


def growth_operations(
    topic: TopicImage, *, first_new: int, controller_epoch: int
) -> Iterator[list[Operation]]:
    """The registry's writes that add partitions from `first_new` on, in groups as those of a creation."""
    yield [Put(paths.topic(topic.name), nodes.write_topic(topic.id, topic.partitions))]
    for partition in topic.partitions[first_new:]:
        yield partition_operations(topic.name, partition, controller_epoch=controller_epoch)


def new_leaderships(
    image: ClusterImage, partitions: Iterable[TopicPartition], *, controller_epoch: int
) -> list[Operation]:
    """The registry's writes that raise the leader epochs of `partitions`."""
    operations: list[Operation] = []
    for name, number in partitions:
        topic = image.topics.get(name)
        if topic is None or number >= len(topic.partitions):
            continue
        before = topic.partitions[number]
        after = before._replace(leader_epoch=before.leader_epoch + 1)
        state = nodes.write_partition_state(after, controller_epoch=controller_epoch)
        operations.append(Put(paths.partition_state(name, number), state, before.partition_epoch))
    return operations


def describe_created(plan: TopicPlan) -> TopicMetadataAndConfig:
    """The answer for a topic that is made as planned."""
    topic = plan.topic
    return TopicMetadataAndConfig(
        name=topic.name,
        id=topic.id,
        partition_count=len(topic.partitions),
        replication_factor=len(topic.partitions[0].replicas),
        config=plan.config,
    )


def unknown_topic(wanted: str | TopicId) -> RequestError:
    """The error for a topic, named by name or id, that is not there."""
    if isinstance(wanted, str):
        return UnknownTopicOrPartition(f"This server does not host the topic {wanted!r}.")
    return UnknownTopicId(f"This server does not host a topic with the id {nodes.topic_id_text(wanted)}.")
