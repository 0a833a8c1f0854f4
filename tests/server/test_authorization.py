"""ACLs in a whole cluster: private requests, the forwarded client, and a right that is taken away everywhere."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from odradek.metadata.image import acl_nodes
from odradek.network.outbound import OutboundConnection
from odradek.security.authorization.acls import CLUSTER_NAME, AclOperation, AclResourceType, PermissionType
from odradek.wire.protocol import cluster_changes, controller_requests
from odradek.wire.protocol.api import ApiKey
from odradek.wire.protocol.cluster_changes import FollowRequest
from odradek.wire.protocol.controller_requests import LeaveRequest
from tests.support.memory_registry import MemoryStore
from tests.support.rights import ALL, CREATE, NO_CLUSTER, NO_TOPIC, WRITE, acl, codes
from tests.support.whole_broker import batch
from tests.support.whole_cluster import WholeCluster

ANONYMOUS = "User:ANONYMOUS"
ENTRIES = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}


async def guarded_cluster() -> WholeCluster:
    """Brokers may do everything to the cluster; the client, of the same principal on another host, nothing."""
    cluster = WholeCluster(ENTRIES, 1)
    brokers = acl(ALL, AclResourceType.CLUSTER, principal=ANONYMOUS)
    entries = [brokers.entry._replace(host=f"node-{number}-1.test") for number in (1, 2)]
    seed = MemoryStore(cluster.registry)
    for parent in acl_nodes.parents_of(brokers.pattern):
        await seed.create(parent)
    await seed.create(acl_nodes.path_of(brokers.pattern), acl_nodes.write_acls(entries))
    await seed.close()
    await cluster.start_controller(100)
    for number in (1, 2):
        await cluster.start_broker(number)
    return cluster


async def allow(
    cluster: WholeCluster, operation: AclOperation, resource_type: AclResourceType, name: str
) -> None:
    active = cluster.active
    assert active is not None
    assert active.dispatcher.active_controller is not None
    binding = acl(operation, resource_type, name, principal=ANONYMOUS)
    outcome = await active.dispatcher.active_controller.controller.create_acls([binding])
    assert outcome == [None]


async def produced(cluster: WholeCluster, broker_id: int, topic: str) -> list[int]:
    answer = await cluster.ask(
        broker_id,
        ApiKey.PRODUCE,
        9,
        acks=1,
        timeout=1000,
        topic_data=[{"name": topic, "partition_data": [{"index": 0, "records": batch([b"v"])}]}],
    )
    return codes(answer)


async def test_rights_are_the_clients_also_where_its_request_is_forwarded() -> None:
    cluster = await guarded_cluster()
    assert await cluster.create_topic("t", through=1) == NO_TOPIC
    await allow(cluster, CREATE, AclResourceType.TOPIC, "t")
    assert await cluster.create_topic("t", through=1, replicas=2) == 0
    assert await cluster.create_topic("u", through=2) == NO_TOPIC


async def test_a_right_that_is_taken_away_is_gone_on_every_broker() -> None:
    cluster = await guarded_cluster()
    await allow(cluster, CREATE, AclResourceType.TOPIC, "t")
    assert await cluster.create_topic("t", partitions=1, replicas=2) == 0
    await allow(cluster, WRITE, AclResourceType.TOPIC, "t")
    await allow(cluster, AclOperation.ALTER, AclResourceType.CLUSTER, CLUSTER_NAME)
    await asyncio.sleep(1)
    # One of them leads the partition; the other one answers that it does not, which it may say.
    for number in (1, 2):
        assert NO_TOPIC not in await produced(cluster, number, "t")
    deleted = await cluster.ask(
        2,
        ApiKey.DELETE_ACLS,
        3,
        filters=[
            {
                "resource_type_filter": int(AclResourceType.TOPIC),
                "resource_name_filter": "t",
                "pattern_type_filter": 3,
                "principal_filter": None,
                "host_filter": None,
                "operation": int(WRITE),
                "permission_type": int(PermissionType.ALLOW),
            }
        ],
    )
    (matched,) = deleted.filter_results
    assert [acl.principal for acl in matched.matching_acls] == [ANONYMOUS]
    await asyncio.sleep(1)
    for number in (1, 2):
        assert await produced(cluster, number, "t") == [NO_TOPIC]


async def test_acls_outlive_the_controller_and_reach_its_successor() -> None:
    cluster = await guarded_cluster()
    await cluster.start_controller(101)
    await allow(cluster, CREATE, AclResourceType.TOPIC, "t")
    cluster.kill_controller(100)
    await cluster.until(lambda: cluster.active is not None)
    assert await cluster.create_topic("t", through=1) == 0
    assert await cluster.create_topic("u", through=1) == NO_TOPIC


async def test_levels_of_loggers_need_their_right_at_the_broker_that_sets_them() -> None:
    cluster = await guarded_cluster()
    request = {
        "resources": [
            {
                "resource_type": 8,
                "resource_name": "1",
                "configs": [{"name": "odradek", "config_operation": 0, "value": "INFO"}],
            }
        ],
        "validate_only": False,
    }
    answer = await cluster.ask(1, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, **request)
    assert codes(answer) == [NO_CLUSTER]
    await allow(cluster, AclOperation.ALTER_CONFIGS, AclResourceType.CLUSTER, CLUSTER_NAME)
    await asyncio.sleep(1)
    assert NO_CLUSTER not in codes(await cluster.ask(1, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, **request))


FOLLOW = FollowRequest(1, "stranger", 1, 1, -1, 0, 0)


@pytest.mark.parametrize("what", ["follow", "forward", "leave"])
async def test_only_brokers_may_send_their_private_requests(what: str) -> None:
    cluster = await guarded_cluster()
    answers = []
    for host in ("client", "node-1-1.test"):
        connection = await OutboundConnection.connect(
            cluster.network.at(host), host=cluster.host(100), port=9093, client_id="stranger"
        )
        frame = await connection.send_frame(lambda number: packed(what, number), timeout_ms=1000)
        answers.append(error_of(what, frame))
        await connection.close()
    stranger, broker = answers
    assert stranger == NO_CLUSTER
    assert broker != NO_CLUSTER


def packed(what: str, number: int) -> bytes:
    if what == "follow":
        return cluster_changes.pack_request(FOLLOW._replace(correlation_id=number))
    if what == "leave":
        return controller_requests.pack_leave(LeaveRequest(number, "stranger", broker_id=1, broker_epoch=1))
    from odradek.wire.protocol import codec, messages

    versions = codec.encode_request(ApiKey.API_VERSIONS, 0, 0, "c", messages.request(ApiKey.API_VERSIONS, 0))
    return controller_requests.pack_forward(
        memoryview(versions)[4:],
        correlation_id=number,
        client_id="stranger",
        client_host="10.0.0.9",
        principal="User:root",
    )


def error_of(what: str, frame: memoryview) -> int:
    parsers: dict[str, Any] = {
        "follow": cluster_changes.parse_response,
        "forward": controller_requests.parse_forwarded,
        "leave": controller_requests.parse_left,
    }
    return int(parsers[what](frame).error_code)


def test_forwarded_requests_keep_their_principal() -> None:
    for principal, host in (("User:alice", "10.0.0.7"), (ANONYMOUS, "10.0.0.7"), ("", "")):
        packed_frame = controller_requests.pack_forward(
            b"frame", correlation_id=1, client_id="b", client_host=host, principal=principal
        )
        parsed = controller_requests.parse_forward(memoryview(packed_frame)[4:])
        assert (parsed.principal, parsed.client_host, bytes(parsed.frame)) == (principal, host, b"frame")
