"""Produce, Fetch and Metadata with an authorizer: rights for each topic, and nothing that hidden names betray."""

from __future__ import annotations

import asyncio
import logging
from typing import Any
from uuid import UUID

import pytest

from odradek.broker.requests.dispatch import Dispatcher
from odradek.broker.requests.rights import rights
from odradek.broker.requests.rights.rights import LOGGER_NAME
from odradek.broker.requests.rights.step import AuthorizationStep
from odradek.broker.requests.rights.table import CHECKS
from odradek.foundation.rate_limited_log import RateLimitedLog
from odradek.security.authorization.acl_matching import AclIndex
from odradek.security.authorization.acls import AclBinding, AclOperation, PatternType, PermissionType
from odradek.security.authorization.authorizer import Authorizer
from odradek.wire.protocol.api import ApiKey
from tests.support.loop import run
from tests.support.rights import (
    ALL,
    CLUSTER,
    CREATE,
    DESCRIBE,
    NO_CLUSTER,
    NO_TOPIC,
    NO_TRANSACTION,
    READ,
    TOPIC,
    TRANSACTIONAL_ID,
    WRITE,
    acl,
    codes,
)
from tests.support.whole_broker import WholeBroker, batch

UNKNOWN_TOPIC = 3


def produced(*topics: str, transactional_id: str | None = None, acks: int = 1) -> dict[str, Any]:
    return {
        "transactional_id": transactional_id,
        "acks": acks,
        "timeout": 1000,
        "topic_data": [
            {"name": topic, "partition_data": [{"index": 0, "records": batch([b"v"])}]} for topic in topics
        ],
    }


async def produce(guarded: WholeBroker, *topics: str, version: int = 9, **fields: Any) -> dict[str, int]:
    """The error of each topic's partition."""
    answer = await guarded.ask(ApiKey.PRODUCE, version, **produced(*topics, **fields))
    return {
        topic.name: int(partition.error_code)
        for topic in answer.responses
        for partition in topic.partition_responses
    }


@pytest.mark.parametrize("version", [3, 9, 12])
async def test_write_is_needed_for_each_topic(version: int) -> None:
    guarded = await WholeBroker.start_guarded()
    assert await produce(guarded, "seen", version=version) == {"seen": NO_TOPIC}
    right = acl(WRITE, TOPIC, "seen")
    await guarded.allow(right)
    for _ in range(3):
        assert await produce(guarded, "seen", version=version) == {"seen": 0}
    both = await produce(guarded, "seen", "hidden", version=version)
    assert both == {"seen": 0, "hidden": NO_TOPIC}
    # A hidden name and a missing one look alike.
    both = await produce(guarded, "hidden", "missing", version=version)
    assert both == {"hidden": NO_TOPIC, "missing": NO_TOPIC}
    assert await produce(guarded, "seen", version=version) == {"seen": 0}
    await guarded.take_away(right)
    assert await produce(guarded, "seen", version=version) == {"seen": NO_TOPIC}


async def test_remembered_bytes_are_those_of_one_topic_only() -> None:
    """After `seen` was produced to, a request that begins alike and continues with another topic is checked."""
    guarded = await WholeBroker.start_guarded()
    await guarded.allow(acl(WRITE, TOPIC, "seen"))
    assert await produce(guarded, "seen") == {"seen": 0}
    assert await produce(guarded, "seen", "hidden") == {"seen": 0, "hidden": NO_TOPIC}
    assert await produce(guarded, "seenhidden") == {"seenhidden": NO_TOPIC}
    transactional = await produce(guarded, "seen", transactional_id="t")
    assert transactional == {"seen": 0}


async def test_transactional_records_need_write_of_the_id() -> None:
    guarded = await WholeBroker.start_guarded()
    await guarded.allow(acl(WRITE, TOPIC, "seen"))
    records = batch([b"v"], producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
    fields = produced("seen", transactional_id="t")
    fields["topic_data"][0]["partition_data"][0]["records"] = records
    answer = await guarded.ask(ApiKey.PRODUCE, 9, **fields)
    assert codes(answer) == [NO_TRANSACTION]
    await guarded.allow(acl(WRITE, TRANSACTIONAL_ID, "t"))
    assert NO_TRANSACTION not in codes(await guarded.ask(ApiKey.PRODUCE, 9, **fields))


async def fetch(guarded: WholeBroker, *topics: str, **fields: Any) -> dict[str, int]:
    asked = guarded.fetch_fields(*((topic, 0, 0) for topic in topics), **fields)
    answer = await guarded.ask(ApiKey.FETCH, 11, **asked)
    return {
        topic.topic: int(partition.error_code) for topic in answer.responses for partition in topic.partitions
    }


async def test_read_is_needed_for_each_topic() -> None:
    guarded = await WholeBroker.start_guarded()
    assert await fetch(guarded, "seen") == {"seen": NO_TOPIC}
    right = acl(READ, TOPIC, "se", pattern_type=PatternType.PREFIXED)
    await guarded.allow(right)
    found = await fetch(guarded, "seen", "hidden", "missing")
    assert found == {"seen": 0, "hidden": NO_TOPIC, "missing": NO_TOPIC}
    await guarded.take_away(right)
    assert await fetch(guarded, "seen") == {"seen": NO_TOPIC}


@pytest.mark.thorough
async def test_a_session_loses_what_its_client_loses() -> None:
    guarded = await WholeBroker.start_guarded()
    right = acl(READ, TOPIC, "seen")
    await guarded.allow(right)
    fields = guarded.fetch_fields(("seen", 0, 0), session_id=0, session_epoch=0)
    opened = await guarded.ask(ApiKey.FETCH, 11, **fields)
    assert codes(opened) == []
    assert opened.session_id > 0
    await guarded.take_away(right)
    going_on = {**fields, "topics": [], "session_id": opened.session_id, "session_epoch": 1}
    assert codes(await guarded.ask(ApiKey.FETCH, 11, **going_on)) == [NO_TOPIC]
    await guarded.allow(right)
    assert codes(await guarded.ask(ApiKey.FETCH, 11, **{**going_on, "session_epoch": 2})) == []


async def test_a_client_that_poses_as_a_follower_gets_nothing() -> None:
    guarded = await WholeBroker.start_guarded()
    await guarded.allow(acl(ALL, TOPIC, "*"))
    assert await fetch(guarded, "seen", replica_id=2) == {"seen": NO_TOPIC}
    await guarded.allow(acl(AclOperation.CLUSTER_ACTION, CLUSTER))
    assert await fetch(guarded, "seen", replica_id=2) != {"seen": NO_TOPIC}


async def test_metadata_shows_and_creates_what_the_client_may() -> None:
    guarded = await WholeBroker.start_guarded()
    await guarded.allow(acl(DESCRIBE, TOPIC, "seen"), acl(DESCRIBE, TOPIC, "new"))
    everything = await guarded.ask(ApiKey.METADATA, 12, topics=None)
    assert [(one.name, int(one.error_code)) for one in everything.topics] == [("seen", 0)]
    assert everything.brokers
    named = await guarded.ask(
        ApiKey.METADATA, 12, topics=[{"name": name} for name in ("seen", "hidden", "missing")]
    )
    assert {one.name: int(one.error_code) for one in named.topics} == {
        "seen": 0,
        "hidden": NO_TOPIC,
        "missing": NO_TOPIC,
    }
    assert all(one.topic_id is None and not one.partitions for one in named.topics if one.error_code)
    hidden_id: UUID = guarded.broker.images.current.topics["hidden"].id
    by_id = await guarded.ask(ApiKey.METADATA, 12, topics=[{"topic_id": hidden_id, "name": None}])
    assert [(one.name, int(one.error_code)) for one in by_id.topics] == [(None, NO_TOPIC)]
    new = await guarded.ask(ApiKey.METADATA, 12, topics=[{"name": "new"}])
    assert [(one.name, int(one.error_code)) for one in new.topics] == [("new", NO_TOPIC)]
    await guarded.allow(acl(CREATE, TOPIC, "new"))
    new = await guarded.ask(ApiKey.METADATA, 12, topics=[{"name": "new"}])
    assert [(one.name, int(one.error_code)) for one in new.topics] == [("new", 0)]


async def test_lists_leave_out_what_is_hidden() -> None:
    guarded = await WholeBroker.start_guarded()
    await guarded.allow(acl(DESCRIBE, TOPIC, "seen"))
    everything = await guarded.ask(
        ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, topics=[], response_partition_limit=100, cursor=None
    )
    assert [one.name for one in everything.topics] == ["seen"]
    assert everything.topics[0].topic_authorized_operations == 1 << DESCRIBE
    cluster = await guarded.ask(ApiKey.DESCRIBE_CLUSTER, 1, include_cluster_authorized_operations=True)
    assert cluster.cluster_authorized_operations == 0
    await guarded.allow(acl(DESCRIBE, CLUSTER))
    cluster = await guarded.ask(ApiKey.DESCRIBE_CLUSTER, 1, include_cluster_authorized_operations=True)
    assert cluster.cluster_authorized_operations == 1 << DESCRIBE


def test_denials_are_logged_quoted_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        guarded = await WholeBroker.start_guarded()
        await produce(guarded, "line\nbreak" + "x" * 300)
        assert guarded.broker.counters.denied == 1

    with caplog.at_level(logging.INFO, logger=LOGGER_NAME):
        run(scenario())
    (line,) = [record.getMessage() for record in caplog.records if record.name == LOGGER_NAME]
    principal = "Principal = User:alice is Denied operation = WRITE from host = 10.0.0.7"
    assert line.startswith(f"{principal} on resource = Topic:LITERAL:line\\nbreak")
    assert line.endswith("… for request = Produce with resourceRefCount = 1")
    assert len(line.splitlines()) == 1
    assert len(line) < 500


async def test_what_was_allowed_is_logged_at_debug_and_denials_at_info(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def lines() -> list[tuple[str, str]]:
        found = [
            (one.levelname, one.getMessage().removeprefix("Principal = User:alice is "))
            for one in caplog.records
            if one.name == LOGGER_NAME
        ]
        caplog.clear()
        return found

    guarded = await WholeBroker.start_guarded()
    await guarded.allow(acl(READ, TOPIC, "seen"), acl(WRITE, TOPIC, "seen"), acl(CREATE, CLUSTER))
    with caplog.at_level(logging.INFO, logger=LOGGER_NAME):
        for _ in range(2):
            await produce(guarded, "seen")
        assert lines() == []
    with caplog.at_level(logging.DEBUG, logger=LOGGER_NAME):
        authorizer = guarded.broker.parts.shared.authorizer
        assert authorizer is not None
        authorizer.forget_remembered()
        allowed = (
            "Allowed operation = {} from host = 10.0.0.7 on resource = Topic:LITERAL:seen for request = {} "
        )
        for _ in range(2):
            await produce(guarded, "seen")
            assert lines() == [("DEBUG", allowed.format("WRITE", "Produce") + "with resourceRefCount = 1")]
            await fetch(guarded, "seen")
            assert lines() == [("DEBUG", allowed.format("READ", "Fetch") + "with resourceRefCount = 1")]
        # Filters of an answer are no decisions that grant anything.
        await guarded.ask(ApiKey.METADATA, 12, topics=None)
        assert lines() == []
        await guarded.ask(ApiKey.DELETE_TOPICS, 5, topic_names=["hidden"], timeout=1000)
        assert lines() == [
            (
                "INFO",
                "Denied operation = DELETE from host = 10.0.0.7 on resource = Topic:LITERAL:hidden for request = "
                "DeleteTopics with resourceRefCount = 1",
            )
        ]


def test_a_flood_of_decisions_is_counted_and_not_logged(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = RateLimitedLog(
        logging.getLogger(LOGGER_NAME), "denied operations", now=lambda: 100.0, lines_per_minute_max=5
    )
    monkeypatch.setattr(rights, "_denied_lines", lines)

    async def scenario() -> None:
        guarded = await WholeBroker.start_guarded()
        names = [f"t-{number}" for number in range(12)]
        await guarded.ask(ApiKey.DELETE_TOPICS, 5, topic_names=names, timeout=1000)
        await asyncio.sleep(60)

    with caplog.at_level(logging.INFO, logger=LOGGER_NAME):
        run(scenario())
    said = [one.getMessage() for one in caplog.records if one.name == LOGGER_NAME]
    assert ["Denied" in line for line in said] == [True] * 5 + [False]
    assert said[-1] == "7 more lines about denied operations were left out"


@pytest.mark.thorough
async def test_an_api_without_a_check_is_refused() -> None:
    """The planted bug: an API that forgets its check."""
    guarded = await WholeBroker.start_guarded()
    authorizer = guarded.broker.parts.shared.authorizer
    assert authorizer is not None
    forgetful = {api: check for api, check in CHECKS.items() if api != ApiKey.DESCRIBE_GROUPS}
    guarded.dispatcher = Dispatcher(guarded.broker.parts, steps=[AuthorizationStep(authorizer, forgetful)])
    await guarded.allow(acl(ALL, CLUSTER), acl(ALL, TOPIC, "*"))
    assert codes(await guarded.ask(ApiKey.DESCRIBE_GROUPS, 5, groups=["g"])) == [NO_CLUSTER]


def test_a_cache_that_keeps_a_removed_acl_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug: an authorizer that continues with its decisions after a change of ACLs."""

    def replace_keeping_decisions(self: Authorizer, index: AclIndex) -> None:
        self._index = index

    async def loses_its_right(binding: AclBinding) -> bool:
        guarded = await WholeBroker.start_guarded()
        await guarded.allow(binding)
        assert await produce(guarded, "seen") == {"seen": 0}
        await guarded.take_away(binding)
        lost = await produce(guarded, "seen") == {"seen": NO_TOPIC}
        await guarded.stop()
        return lost

    right = acl(WRITE, TOPIC, "seen")
    assert run(loses_its_right(right))
    monkeypatch.setattr(Authorizer, "replace", replace_keeping_decisions)
    assert not run(loses_its_right(right))


async def test_without_an_authorizer_there_is_no_step_and_no_acl() -> None:
    from tests.support.whole_broker import WholeBroker

    broker = await WholeBroker.start()
    dispatcher = broker.broker.control.make_dispatcher(broker.broker.parts)
    assert dispatcher._steps == ()
    answer = await broker.ask(
        ApiKey.CREATE_ACLS,
        2,
        creations=[
            {
                "resource_type": 2,
                "resource_name": "t",
                "resource_pattern_type": 3,
                "principal": "User:a",
                "host": "*",
                "operation": 3,
                "permission_type": 3,
            }
        ],
    )
    assert codes(answer) == [54]


async def test_a_denial_beats_an_allowance() -> None:
    guarded = await WholeBroker.start_guarded(allow_everyone_if_no_acl_found="true")
    assert await produce(guarded, "seen") == {"seen": 0}
    await guarded.allow(
        acl(WRITE, TOPIC, "seen"),
        acl(WRITE, TOPIC, "s", pattern_type=PatternType.PREFIXED, permission=PermissionType.DENY),
    )
    assert await produce(guarded, "seen") == {"seen": NO_TOPIC}
    guarded.connection.principal = "User:root"
    assert await produce(guarded, "seen") == {"seen": 0}
