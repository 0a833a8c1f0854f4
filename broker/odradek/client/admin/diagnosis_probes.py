"""Asks a cluster for what `diagnosis` judges. Each part is asked on its own: one that fails is named, and the others go
ahead. Every part has a time limit.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, TypeVar

from odradek.client.addresses import Address
from odradek.client.admin.acls import AclAdmin
from odradek.client.admin.configs import ConfigAdmin
from odradek.client.admin.diagnosis import (
    BROKER_SETTINGS,
    COORDINATORS_TOPICS,
    GROUPS,
    PROCESSES,
    RIGHTS,
    SAME_ON_ALL_BROKERS,
    TIMES,
    TOPIC_SETTINGS,
    TRANSACTIONS,
    Facts,
    GroupFacts,
)
from odradek.client.admin.group_offsets import fetch_offsets_of_groups
from odradek.client.admin.groups import ZOOKEEPER, GroupAdmin
from odradek.client.admin.health import REBALANCING_STATES
from odradek.client.admin.health_probes import cluster_health
from odradek.client.admin.logs import EARLIEST, LATEST, MAX_TIMESTAMP, LogAdmin
from odradek.client.admin.transactions import TransactionAdmin
from odradek.client.client import Client
from odradek.client.metadata import ClusterInfo
from odradek.client.results import ConfigEntry, GroupListing, ResourceType
from odradek.foundation.errors import OdradekError
from odradek.foundation.ids import TopicPartition
from odradek.foundation.security_errors import SecurityDisabled
from odradek.security.authorization.acls import AclBinding, AclOperation, PermissionType
from odradek.wire.protocol.api import ApiKey

PART_SECONDS_MAX: Final = 15.0
# Questions of one part at a time: a cluster may have 10,000 groups.
_AT_ONCE_MAX: Final = 16
# Between the two looks at groups that rebalance. A healthy rebalance of a small group is over by then.
LOOK_AGAIN_SECONDS: Final = 3.0
# A transaction without a record for so long, and without a coordinator, hangs. Kafka's bound of a transaction's time.
_HANGS_AFTER_MS: Final = 900_000
_BROKER_KEYS: Final = (*SAME_ON_ALL_BROKERS, "allow.everyone.if.no.acl.found", "socket.request.max.bytes")
_TOPIC_KEYS: Final = (
    "cleanup.policy",
    "max.message.bytes",
    "min.insync.replicas",
    "unclean.leader.election.enable",
)
_VERSIONS_OF_DESCRIBE_CLUSTER: Final = (0, 1)

T = TypeVar("T")
K = TypeVar("K")


class _Asked:
    """Asks, and names what could not be had in `unasked`."""

    def __init__(self) -> None:
        self.unasked: dict[str, str] = {}

    async def part(self, what: str, work: Awaitable[T], otherwise: T) -> T:
        """The answer to one part, in time."""
        try:
            async with asyncio.timeout(PART_SECONDS_MAX):
                return await work
        except TimeoutError:
            self.unasked[what] = f"no answer within {PART_SECONDS_MAX:g} s"
        except (OdradekError, OSError) as failure:
            self.unasked[what] = str(failure)
        return otherwise

    async def each(self, what: str, keys: Sequence[K], ask: Callable[[K], Awaitable[T]]) -> dict[K, T]:
        """The answers by key. The first key without one is named; how many more there are, too."""
        turns = asyncio.Semaphore(_AT_ONCE_MAX)
        answers = await asyncio.gather(*(_answer_or_error(ask, key, turns) for key in keys))
        failed = {key: one for key, one in zip(keys, answers, strict=True) if isinstance(one, Exception)}
        if failed:
            key, failure = next(iter(failed.items()))
            more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
            self.unasked[what] = f"{key}: {failure}{more}"
        return {key: one for key, one in zip(keys, answers, strict=True) if not isinstance(one, Exception)}


async def find_facts(
    client: Client, *, bootstrap: Sequence[Address], security_protocol: str, now_ms: Callable[[], int]
) -> Facts:
    """All that can be asked. Raises ConnectionFailed or ClientTimeout when no broker answers."""
    health = await cluster_health(client)
    cluster = await client.refresh(None)
    asked, numbers = _Asked(), sorted(cluster.brokers)
    no_groups: Sequence[GroupFacts] = ()
    no_partitions: Sequence[TopicPartition] = ()
    no_acls: tuple[bool | None, Sequence[str]] = (None, ())
    (of_topics, of_brokers, processes), (groups, hanging, newest, acls) = await asyncio.gather(
        asyncio.gather(
            asked.part(TOPIC_SETTINGS, _topic_configs(client, sorted(cluster.topics), asked), {}),
            asked.part(BROKER_SETTINGS, _broker_configs(client, numbers, asked), {}),
            asked.part(
                PROCESSES, asked.each(PROCESSES, numbers, lambda number: _process(client, number)), {}
            ),
        ),
        asyncio.gather(
            asked.part(GROUPS, _groups(client, asked), no_groups),
            asked.part(TRANSACTIONS, _hanging(client, cluster, now_ms()), no_partitions),
            asked.part(TIMES, _newest_times(client, cluster), {}),
            asked.part(RIGHTS, _rights(client), no_acls),
        ),
    )
    return Facts(
        health=health,
        now_ms=now_ms(),
        bootstrap=tuple(bootstrap),
        security_protocol=security_protocol,
        addresses={broker.id: broker.address for broker in cluster.brokers.values()},
        racks={broker.id: broker.rack for broker in cluster.brokers.values()},
        cluster_ids={number: cluster_id for number, (cluster_id, _) in processes.items()},
        topics=sorted(cluster.topics.values(), key=lambda topic: topic.name),
        topic_configs=of_topics,
        broker_configs=of_brokers,
        groups=groups,
        hanging=hanging,
        newest_ms=newest,
        certificates={
            number: expires_ms for number, (_, expires_ms) in processes.items() if expires_ms is not None
        },
        has_authorizer=acls[0],
        open_to_all=acls[1],
        unasked=asked.unasked,
    )


async def _answer_or_error(
    ask: Callable[[K], Awaitable[T]], key: K, turns: asyncio.Semaphore
) -> T | Exception:
    async with turns:
        try:
            return await ask(key)
        except (OdradekError, OSError) as failure:
            return failure


def _texts(entries: Sequence[ConfigEntry]) -> dict[str, str]:
    return {entry.name: entry.value for entry in entries if entry.value is not None}


async def _topic_configs(
    client: Client, names: Sequence[str], asked: _Asked
) -> Mapping[str, Mapping[str, str]]:
    found = await ConfigAdmin(client).describe_many(ResourceType.TOPIC, names, keys=_TOPIC_KEYS)

    async def of(name: str) -> dict[str, str]:
        entries = found[name]
        if isinstance(entries, OdradekError):
            raise entries
        return _texts(entries)

    return await asked.each(TOPIC_SETTINGS, names, of)


async def _broker_configs(
    client: Client, numbers: Sequence[int], asked: _Asked
) -> Mapping[int, Mapping[str, str]]:
    admin = ConfigAdmin(client)

    async def of(number: int) -> dict[str, str]:
        return _texts(await admin.describe(ResourceType.BROKER, str(number), keys=_BROKER_KEYS))

    return await asked.each(BROKER_SETTINGS, numbers, of)


async def _process(client: Client, number: int) -> tuple[str, int | None]:
    """The id of the cluster that answers at a broker's address, and when its certificate expires."""
    connection = await client.broker(number)
    answer = await connection.request(
        ApiKey.DESCRIBE_CLUSTER,
        versions=_VERSIONS_OF_DESCRIBE_CLUSTER,
        include_cluster_authorized_operations=False,
    )
    expires = (connection.peer_certificate or {}).get("notAfter")
    return str(answer.cluster_id), None if expires is None else ssl.cert_time_to_seconds(str(expires)) * 1000


async def _groups(client: Client, asked: _Asked) -> Sequence[GroupFacts]:
    admin = GroupAdmin(client)
    by_broker = {
        broker_id: [group for group in groups if group.type != ZOOKEEPER]
        for broker_id, groups in (await admin.list_by_broker()).items()
    }
    listed = sorted(
        (group for groups in by_broker.values() for group in groups), key=lambda one: one.group_id
    )
    found = await fetch_offsets_of_groups(
        client, {broker_id: [one.group_id for one in groups] for broker_id, groups in by_broker.items()}
    )
    alone = [group.group_id for group in listed if group.group_id not in found]
    found |= await asked.each(GROUPS, alone, admin.offsets)
    committed = {
        name: {where: one.offset for where, one in offsets.items()} for name, offsets in found.items()
    }
    partitions = {partition for found in committed.values() for partition in found}
    logs = LogAdmin(client)
    starts = await logs.known_offsets_at(partitions, EARLIEST)
    ends = await logs.known_offsets_at(partitions, LATEST)
    later = {group.group_id: group.state for group in await _look_again(admin, listed)}
    return [
        GroupFacts(
            group_id=group.group_id,
            state=group.state,
            later_state=later.get(group.group_id, ""),
            lag=sum(
                max(ends.get(partition, 0) - max(offset, starts.get(partition, 0)), 0)
                for partition, offset in committed.get(group.group_id, {}).items()
            ),
            behind_start={
                partition: starts[partition] - offset
                for partition, offset in committed.get(group.group_id, {}).items()
                if 0 <= offset < starts.get(partition, 0)
            },
        )
        for group in listed
    ]


async def _look_again(admin: GroupAdmin, groups: Sequence[GroupListing]) -> Sequence[GroupListing]:
    if not any(group.state in REBALANCING_STATES for group in groups):
        return groups
    await asyncio.sleep(LOOK_AGAIN_SECONDS)
    return await admin.list()


async def _hanging(client: Client, cluster: ClusterInfo, now_ms: int) -> Sequence[TopicPartition]:
    partitions = [
        TopicPartition(topic.name, one.partition)
        for topic in cluster.topics.values()
        for one in topic.partitions
        if one.leader >= 0
    ]
    found = await TransactionAdmin(client).hanging(partitions, now_ms=now_ms, open_longer_ms=_HANGS_AFTER_MS)
    return sorted({one.partition for one in found})


async def _newest_times(client: Client, cluster: ClusterInfo) -> Mapping[TopicPartition, int]:
    wanted = {
        TopicPartition(name, one.partition): MAX_TIMESTAMP
        for name in COORDINATORS_TOPICS
        if name in cluster.topics
        for one in cluster.topics[name].partitions
    }
    found = await LogAdmin(client).list_offsets_each(wanted)
    return {
        partition: one.timestamp_ms
        for partition, one in found.items()
        if not isinstance(one, OdradekError) and one.timestamp_ms >= 0
    }


async def _rights(client: Client) -> tuple[bool | None, Sequence[str]]:
    try:
        acls = await AclAdmin(client).list()
    except SecurityDisabled:
        return False, ()
    return True, [_words(acl) for acl in acls if _is_open(acl)]


def _is_open(acl: AclBinding) -> bool:
    entry = acl.entry
    return (
        entry.principal == "User:*"
        and entry.permission is PermissionType.ALLOW
        and entry.operation is AclOperation.ALL
    )


def _words(acl: AclBinding) -> str:
    return f"every user may do everything with {acl.pattern.type.name.lower()} {acl.pattern.name!r}"
