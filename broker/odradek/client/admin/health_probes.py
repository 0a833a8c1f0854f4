"""Asks for the health of a cluster: one reading of brokers, partitions, disks, moves and groups. All brokers are asked
for their log directories and groups at the same time, and one that does not answer delays no other. A missing broker is
known by its replicas. A cluster that remembers it (fenced brokers, KIP-1073; Apache Kafka from 4.1 on) reports it also
without replicas. Left out: the load of brokers, and the lag of consumers (`GroupAdmin`).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from odradek.client.addresses import Address
from odradek.client.admin.disks import directories_of
from odradek.client.admin.groups import GroupAdmin
from odradek.client.admin.health import BrokerHealth, BrokerStatus, ClusterHealth
from odradek.client.admin.logs import LogAdmin
from odradek.client.admin.partition_states import (
    PartitionState,
    answer_in_time,
    moves_under_way,
    partition_states,
)
from odradek.client.client import Client
from odradek.client.errors import ClientTimeout, raise_for
from odradek.client.metadata import NO_LEADER, BrokerInfo
from odradek.client.results import GroupListing, LogDirectoryDescription
from odradek.foundation.client_limits import HEALTH_ANSWER_SECONDS_MAX
from odradek.foundation.errors import NotController, OdradekError, RequestTimedOut
from odradek.foundation.ids import TopicPartition
from odradek.wire.protocol.api import ApiKey

QUORUM_VERSIONS: Final = (0, 2)
_METADATA_LOG: Final = TopicPartition("__cluster_metadata", 0)


async def cluster_health(client: Client) -> ClusterHealth:
    """Ask for the health of the cluster. Raises ConnectionFailed or ClientTimeout when no broker answers."""
    cluster = await client.with_retries(lambda: client.refresh(None))
    topics = sorted(cluster.topics.values(), key=lambda topic: topic.name)
    states, moves, quorum, remembered, probes = await asyncio.gather(
        partition_states(client, topics),
        moves_under_way(client),
        _active_controller(client),
        _find_fenced_brokers(client),
        asyncio.gather(*(_probe(client, broker) for broker in cluster.brokers.values())),
    )
    has_quorum, active = quorum
    forwarding = cluster.controller_id if cluster.controller_id != NO_LEADER else None
    groups = {group.group_id: group.state for probe in probes for group in probe.groups}
    return ClusterHealth(
        cluster_id=cluster.cluster_id or "",
        controller_id=active if has_quorum else forwarding,
        is_forwarded=not has_quorum,
        brokers=_brokers(probes, remembered, states),
        topics=len(topics),
        partitions=len(states),
        troubled=tuple(state for state in states if state.problems),
        moves=moves,
        groups=dict(sorted(Counter(groups.values()).items())),
    )


# --- requests ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Probe:
    """One broker's answers about itself."""

    broker: BrokerInfo
    directories: Sequence[LogDirectoryDescription] = ()
    groups: Sequence[GroupListing] = ()
    error: str | None = None


async def _probe(client: Client, broker: BrokerInfo) -> _Probe:
    directories = await directories_of(
        client, broker.id, partitions=(), seconds_max=HEALTH_ANSWER_SECONDS_MAX
    )
    if isinstance(directories, OdradekError):
        return _Probe(broker, error=str(directories))
    # Without an answer its groups are being loaded, or it has just stopped: its earlier answer counts.
    groups = await answer_in_time(GroupAdmin(client).list_of(broker.id), otherwise=())
    return _Probe(broker, directories, groups)


async def _active_controller(client: Client) -> tuple[bool, int | None]:
    """Whether brokers report a quorum (KIP-595), and the controller that leads it."""
    topic, partition = _METADATA_LOG
    try:
        async with asyncio.timeout(HEALTH_ANSWER_SECONDS_MAX):
            response = await (await client.any_broker()).request(
                ApiKey.DESCRIBE_QUORUM,
                versions=QUORUM_VERSIONS,
                topics=[{"topic_name": topic, "partitions": [{"partition_index": partition}]}],
            )
            raise_for(response.error_code)
            answer = response.topics[0].partitions[0]
            raise_for(answer.error_code)
    except (NotController, RequestTimedOut, ClientTimeout, TimeoutError):
        return True, None
    except (OdradekError, IndexError):
        return False, None  # a broker without a quorum, or a user who may not describe it
    leader = answer.leader_id
    return True, leader if leader >= 0 else None


async def _find_fenced_brokers(client: Client) -> dict[int, tuple[str, int, str | None]]:
    described = await answer_in_time(LogAdmin(client).describe_cluster(include_fenced=True), otherwise=None)
    return {} if described is None else dict(described.fenced)


# --- results -----------------------------------------------------------------------------------------------------


def _brokers(
    probes: Iterable[_Probe],
    remembered: Mapping[int, tuple[str, int, str | None]],
    states: Sequence[PartitionState],
) -> tuple[BrokerHealth, ...]:
    replicas = Counter(broker for state in states for broker in state.info.replicas)
    leaders = Counter(state.info.leader for state in states)
    found = {
        probe.broker.id: BrokerHealth(
            id=probe.broker.id,
            status=BrokerStatus.LIVE if probe.error is None else BrokerStatus.SILENT,
            address=str(probe.broker.address),
            rack=probe.broker.rack,
            replicas=replicas[probe.broker.id],
            leaders=leaders[probe.broker.id],
            directories=tuple(probe.directories),
            error=probe.error,
        )
        for probe in probes
    }
    for broker_id in sorted((replicas.keys() | remembered.keys()) - found.keys()):
        host, port, rack = remembered.get(broker_id, ("", 0, None))
        found[broker_id] = BrokerHealth(
            id=broker_id,
            status=BrokerStatus.GONE,
            address=str(Address(host, port)) if host else None,
            rack=rack,
            replicas=replicas[broker_id],
            leaders=leaders[broker_id],
        )
    return tuple(found[broker_id] for broker_id in sorted(found))
