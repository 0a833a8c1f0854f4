"""StreamsGroupHeartbeat and StreamsGroupDescribe over the wire: versions, internal topics, rights, no early imports."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from odradek.wire.protocol.api import ApiKey
from tests.support.handler_requests import versions
from tests.support.polling import eventually
from tests.support.rights import CLUSTER, CREATE, DESCRIBE, GROUP, NO_GROUP, NO_TOPIC, READ, TOPIC, acl
from tests.support.whole_broker import WholeBroker

HEARTBEAT = ApiKey.STREAMS_GROUP_HEARTBEAT
AT_ONCE = {
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.assignment.interval.ms": "0",
}
MISSING_INTERNAL_TOPICS = 3


def topology(source: str = "lines", *, replicas: int = 0) -> dict[str, Any]:
    nothing: dict[str, Any] = {
        "source_topic_regex": [],
        "repartition_sink_topics": [],
        "repartition_source_topics": [],
        "copartition_groups": [],
    }
    changelog = {
        "name": "log",
        "partitions": 0,
        "replication_factor": replicas,
        "topic_configs": [{"key": "cleanup.policy", "value": "compact"}],
    }
    one = {"subtopology_id": "0", "source_topics": [source], "state_changelog_topics": [changelog]}
    return {"epoch": 0, "subtopologies": [{**nothing, **one}]}


async def started(**settings: str) -> WholeBroker:
    """A broker that coordinates groups, and assigns at once."""
    broker = await WholeBroker.start({**AT_ONCE, **settings})
    await broker.ask(ApiKey.FIND_COORDINATOR, 3, key_type=0, key="g")
    return broker


async def heartbeat(broker: WholeBroker, version: int = 1, **fields: Any) -> Any:
    return await broker.ask(
        HEARTBEAT,
        version,
        **{
            "group_id": "g",
            "member_id": "m",
            "endpoint_information_epoch": -1,
            "rebalance_timeout": -1,
            "active_tasks": None,
            "standby_tasks": None,
            "warmup_tasks": None,
            "client_tags": None,
            "task_offsets": None,
            "task_end_offsets": None,
            **fields,
        },
    )


async def join(broker: WholeBroker, version: int = 1, **fields: Any) -> Any:
    given = {
        "member_epoch": 0,
        "rebalance_timeout": 10_000,
        "topology": topology(),
        "active_tasks": [],
        "standby_tasks": [],
        "warmup_tasks": [],
        "process_id": "p",
        **fields,
    }
    return await heartbeat(broker, version, **given)


@pytest.mark.parametrize("version", versions(HEARTBEAT))
async def test_internal_topics_are_made_and_tasks_given(version: int) -> None:
    broker = await started()
    await broker.create_topic("lines", partitions=2)
    joined = await join(broker, version)
    (status,) = joined.status
    assert (status.status_code, status.status_detail) == (
        MISSING_INTERNAL_TOPICS,
        "Internal topics are missing: log",
    )
    beat = await until_ready(broker, version, joined.member_epoch)
    assert beat.heartbeat_interval.total_seconds() == 5
    assert beat.task_offset_interval.total_seconds() == 60
    assert beat.acceptable_recovery_lag == (10_000 if version else 0)
    (tasks,) = beat.active_tasks
    assert (tasks.subtopology_id, tasks.partitions) == ("0", (0, 1))
    made = broker.broker.images.current.topics["log"]
    assert len(made.partitions) == 2
    described = await broker.ask(
        ApiKey.STREAMS_GROUP_DESCRIBE, version, group_ids=["g"], include_authorized_operations=True
    )
    (group,) = described.groups
    assert (group.group_state, group.topology.subtopologies[0].state_changelog_topics[0].partitions) == (
        "Stable",
        2,
    )
    assert group.authorized_operations > 0
    left = await heartbeat(broker, version, member_epoch=-1)
    assert (int(left.error_code), left.member_epoch) == (0, -1)


async def until_ready(broker: WholeBroker, version: int, epoch: int) -> Any:
    """Heartbeats until the member has tasks."""

    async def beat() -> Any:
        nonlocal epoch
        answer = await heartbeat(broker, version, member_epoch=epoch)
        epoch = answer.member_epoch
        return answer

    return await eventually("the member has tasks", beat, lambda answer: bool(answer.active_tasks))


async def test_a_topic_that_cannot_be_made_is_told() -> None:
    broker = await started()
    await broker.create_topic("lines", partitions=1)
    joined = await join(broker, topology=topology(replicas=9))
    told = await eventually(
        "the failure is in the status",
        lambda: heartbeat(broker, member_epoch=joined.member_epoch),
        lambda answer: "Creation failed" in answer.status[0].status_detail,
    )
    detail = told.status[0].status_detail
    assert detail.startswith("Internal topics are missing: log; Creation failed: log (")


async def test_internal_topics_are_made_with_the_clients_rights() -> None:
    broker = await WholeBroker.start_guarded(**{key.replace(".", "_"): text for key, text in AT_ONCE.items()})
    asked: dict[str, Any] = {"topology": topology("seen")}
    assert int((await join(broker, **asked)).error_code) == NO_GROUP
    await broker.allow(acl(READ, GROUP, "g"), acl(DESCRIBE, TOPIC, "seen"))
    assert int((await join(broker, **asked)).error_code) == NO_TOPIC
    await broker.allow(acl(DESCRIBE, TOPIC, "log"))
    joined = await join(broker, **asked)
    assert joined.status[0].status_detail == (
        "Internal topics are missing: log; Unauthorized to CREATE on topics log."
    )
    assert "log" not in broker.broker.images.current.topics
    await broker.allow(acl(CREATE, CLUSTER))
    await until_ready(broker, 1, joined.member_epoch)
    assert "log" in broker.broker.images.current.topics


async def test_members_without_wanted_tags_are_told_in_version_1() -> None:
    broker = await started(**{"group.streams.rack.aware.assignment.tags": "zone,rack"})
    await broker.create_topic("lines", partitions=1)
    for version, wanted in ((0, set()), (1, {6})):
        joined = await join(broker, version, client_tags=[{"key": "zone", "value": "z"}])
        assert {status.status_code for status in joined.status} - {MISSING_INTERNAL_TOPICS} == wanted


def test_a_broker_without_streams_groups_loads_none_of_their_modules() -> None:
    program = (
        "import sys; import odradek.broker.groups.coordinator, odradek.broker.requests.rights.table\n"
        "print([name for name in sys.modules if 'groups.streams' in name or 'streams_group' in name])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
