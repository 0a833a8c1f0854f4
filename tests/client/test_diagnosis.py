"""Faults that are planted in a cluster's facts: each is found, by its check, and a healthy cluster has none."""

from __future__ import annotations

import os
import re
import shlex
import uuid
from collections.abc import Callable
from dataclasses import replace

import pytest

from odradek.client.addresses import Address
from odradek.client.admin.diagnosis import (
    GROUPS,
    NEEDED_BY,
    RULES,
    Facts,
    GroupFacts,
    Severity,
    diagnose,
    find_passed,
)
from odradek.client.admin.health import BrokerHealth, BrokerStatus, ClusterHealth
from odradek.client.metadata import PartitionInfo, TopicInfo
from odradek.client.results import LogDirectoryDescription
from odradek.foundation.ids import TopicPartition
from tests.support.command_line import run_command

NOW_MS = 1_700_000_000_000
DAY_MS = 86_400_000
WHERE = TopicPartition("orders", 0)
BROKER_CONFIG = {
    "allow.everyone.if.no.acl.found": "false",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "socket.request.max.bytes": "104857600",
}
TOPIC_CONFIG = {
    "cleanup.policy": "delete",
    "max.message.bytes": "1048588",
    "min.insync.replicas": "2",
    "unclean.leader.election.enable": "false",
}


def topic(name: str, *, copies: int = 3) -> TopicInfo:
    replicas = tuple(range(1, copies + 1))
    partition = PartitionInfo(0, 1, 0, replicas, replicas, (), 0)
    return TopicInfo(name, uuid.uuid4(), name.startswith("__"), (partition,), 0)


def directory(**fields: object) -> LogDirectoryDescription:
    given = {"total_bytes": 1 << 40, "usable_bytes": 1 << 39, "replicas": {}, "error": None, **fields}
    return LogDirectoryDescription(broker_id=1, path="/data", **given)  # type: ignore[arg-type]


def broker(number: int, **fields: object) -> BrokerHealth:
    given = {
        "status": BrokerStatus.LIVE,
        "address": f"kafka-{number}:9092",
        "rack": "a",
        "replicas": 3,
        "leaders": 1,
        "directories": (directory(),),
        **fields,
    }
    return BrokerHealth(id=number, **given)  # type: ignore[arg-type]


HEALTH = ClusterHealth(
    cluster_id="one",
    controller_id=1,
    is_forwarded=False,
    brokers=tuple(broker(number) for number in (1, 2, 3)),
    topics=1,
    partitions=1,
    troubled=(),
    moves={},
    groups={"Stable": 1},
)
HEALTHY = Facts(
    health=HEALTH,
    now_ms=NOW_MS,
    bootstrap=(Address("kafka-1", 9092),),
    security_protocol="SASL_SSL",
    addresses={number: Address(f"kafka-{number}", 9092) for number in (1, 2, 3)},
    racks=dict.fromkeys((1, 2, 3), "a"),
    cluster_ids=dict.fromkeys((1, 2, 3), "one"),
    topics=(topic("orders"), topic("__consumer_offsets")),
    topic_configs={
        "orders": TOPIC_CONFIG,
        "__consumer_offsets": {**TOPIC_CONFIG, "cleanup.policy": "compact"},
    },
    broker_configs=dict.fromkeys((1, 2, 3), BROKER_CONFIG),
    groups=(GroupFacts(group_id="g", state="Stable", later_state="Stable", lag=5),),
    newest_ms={TopicPartition("__consumer_offsets", 0): NOW_MS - 5},
    certificates=dict.fromkeys((1, 2, 3), NOW_MS + 300 * DAY_MS),
    has_authorizer=True,
)


def with_topic(name: str = "orders", *, copies: int = 3, **config: str) -> Facts:
    """The healthy cluster with this topic in another form."""
    others = tuple(one for one in HEALTHY.topics if one.name != name)
    given = {key.replace("_", "."): text for key, text in config.items()}
    configs = {**HEALTHY.topic_configs, name: {**HEALTHY.topic_configs.get(name, TOPIC_CONFIG), **given}}
    return replace(HEALTHY, topics=(*others, topic(name, copies=copies)), topic_configs=configs)


def with_config(number: int, **config: str) -> Facts:
    """The healthy cluster with another setting of one broker."""
    given = {key.replace("_", "."): text for key, text in config.items()}
    return replace(HEALTHY, broker_configs={**HEALTHY.broker_configs, number: {**BROKER_CONFIG, **given}})


def with_broker(number: int, **fields: object) -> Facts:
    brokers = tuple(one for one in HEALTH.brokers if one.id != number)
    return replace(HEALTHY, health=replace(HEALTH, brokers=(*brokers, broker(number, **fields))))


def with_group(**fields: object) -> Facts:
    given = {"group_id": "g", "state": "Stable", "later_state": "Stable", **fields}
    return replace(HEALTHY, groups=(GroupFacts(**given),))  # type: ignore[arg-type]


FAULTS: dict[str, tuple[str, Severity, Callable[[], Facts], str]] = {
    "no controller": (
        "health",
        Severity.PROBLEM,
        lambda: replace(HEALTHY, health=replace(HEALTH, controller_id=None)),
        "no controller",
    ),
    "a broker that is gone": (
        "health",
        Severity.WARNING,
        lambda: with_broker(2, status=BrokerStatus.GONE),
        "broker 2 is gone",
    ),
    "a broker that does not answer": (
        "health",
        Severity.PROBLEM,
        lambda: with_broker(2, status=BrokerStatus.SILENT, error="refused"),
        "broker 2 does not answer: refused",
    ),
    "a full disk": (
        "health",
        Severity.PROBLEM,
        lambda: with_broker(2, directories=(directory(usable_bytes=1),)),
        "is full",
    ),
    "a failed disk": (
        "health",
        Severity.WARNING,
        lambda: with_broker(2, directories=(directory(error="EIO"),)),
        "/data failed",
    ),
    "a loopback address for others": (
        "addresses",
        Severity.PROBLEM,
        lambda: replace(HEALTHY, addresses={**HEALTHY.addresses, 2: Address("localhost", 9092)}),
        "broker 2 advertises localhost:9092, which means this machine",
    ),
    "one address twice": (
        "addresses",
        Severity.PROBLEM,
        lambda: replace(HEALTHY, addresses={**HEALTHY.addresses, 2: Address("kafka-1", 9092)}),
        "brokers 1, 2 advertise the same address",
    ),
    "another cluster at an address": (
        "addresses",
        Severity.PROBLEM,
        lambda: replace(HEALTHY, cluster_ids={**HEALTHY.cluster_ids, 3: "two"}),
        "answers a broker of another cluster, two",
    ),
    "one copy": ("copies", Severity.WARNING, lambda: with_topic(copies=1), "1 topic with one copy"),
    "no copy to spare": (
        "copies",
        Severity.WARNING,
        lambda: with_topic(min_insync_replicas="3"),
        "leaves no copy to spare: orders",
    ),
    "more copies asked for than there are": (
        "copies",
        Severity.WARNING,
        lambda: with_topic(min_insync_replicas="4"),
        "asks for more copies than there are: orders",
    ),
    "few copies of the groups' offsets": (
        "copies",
        Severity.WARNING,
        lambda: with_topic("__consumer_offsets", copies=1, cleanup_policy="compact"),
        "__consumer_offsets has 1 of 3 copies",
    ),
    "racks on some brokers": (
        "racks",
        Severity.WARNING,
        lambda: replace(HEALTHY, racks={1: "a", 2: None, 3: "b"}),
        "brokers 2 have no rack",
    ),
    "brokers that differ": (
        "settings",
        Severity.WARNING,
        lambda: with_config(2, min_insync_replicas="1"),
        "min.insync.replicas differs between brokers: '1' on 2; '2' on 1, 3",
    ),
    "unclean elections": (
        "settings",
        Severity.WARNING,
        lambda: with_topic(unclean_leader_election_enable="true"),
        "unclean.leader.election.enable is true",
    ),
    "new topics of one copy": (
        "settings",
        Severity.WARNING,
        lambda: with_config(2, default_replication_factor="1"),
        "default.replication.factor is 1 on brokers 2",
    ),
    "offsets that are deleted by age": (
        "settings",
        Severity.PROBLEM,
        lambda: with_topic("__consumer_offsets", cleanup_policy="delete"),
        "cleanup.policy of __consumer_offsets is delete",
    ),
    "records larger than a request": (
        "settings",
        Severity.WARNING,
        lambda: with_topic(max_message_bytes="209715200"),
        "max.message.bytes of orders is 209715200",
    ),
    "a group that is stuck": (
        "groups",
        Severity.WARNING,
        lambda: with_group(state="PreparingRebalance", later_state="PreparingRebalance"),
        "group g was rebalancing at both looks",
    ),
    "records deleted before they were read": (
        "groups",
        Severity.WARNING,
        lambda: with_group(behind_start={WHERE: 7}),
        "group g has not read 7 records that retention has deleted, in orders-0",
    ),
    "a group without members": (
        "groups",
        Severity.NOTE,
        lambda: with_group(state="Empty", later_state="Empty", lag=7),
        "group g has no members, and 7 records to read",
    ),
    "a transaction that hangs": (
        "transactions",
        Severity.PROBLEM,
        lambda: replace(HEALTHY, hanging=(WHERE,)),
        "transactions hang in orders-0",
    ),
    "a clock ahead": (
        "clocks",
        Severity.WARNING,
        lambda: replace(HEALTHY, newest_ms={TopicPartition("__consumer_offsets", 0): NOW_MS + 300_000}),
        "300 s ahead of this machine's clock",
    ),
    "a certificate that expires": (
        "certificates",
        Severity.WARNING,
        lambda: replace(HEALTHY, certificates={2: NOW_MS + 9 * DAY_MS}),
        "the certificate of broker 2 expires in 9 days",
    ),
    "no authorizer": (
        "rights",
        Severity.WARNING,
        lambda: replace(HEALTHY, has_authorizer=False),
        "there is no authorizer",
    ),
    "passwords in the clear": (
        "rights",
        Severity.WARNING,
        lambda: replace(HEALTHY, security_protocol="SASL_PLAINTEXT"),
        "without encryption",
    ),
    "an ACL for everybody": (
        "rights",
        Severity.WARNING,
        lambda: replace(HEALTHY, open_to_all=("every user may do everything with topic '*'",)),
        "open to all users: every user may do everything with topic '*'",
    ),
    "everything without an ACL is open": (
        "rights",
        Severity.WARNING,
        lambda: with_config(2, allow_everyone_if_no_acl_found="true"),
        "allow.everyone.if.no.acl.found is true on brokers 2",
    ),
    "what could not be asked": (
        "unasked",
        Severity.NOTE,
        lambda: replace(HEALTHY, unasked={GROUPS: "denied"}),
        "groups could not be looked at: denied",
    ),
}


def test_a_healthy_cluster_has_no_findings() -> None:
    assert diagnose(HEALTHY) == []


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found_and_nothing_else(name: str) -> None:
    check, severity, facts, words = FAULTS[name]
    found = diagnose(facts())
    assert [one for one in found if (one.check, one.severity) == (check, severity) and words in one.words], (
        found
    )
    assert {one.check for one in found} == {check}
    assert all(one.advice for one in found if one.check != "unasked")


def test_every_check_has_a_planted_fault() -> None:
    assert {check for check, *_ in FAULTS.values()} == set(RULES)


def test_the_worst_come_first() -> None:
    facts = replace(
        with_topic(copies=1, min_insync_replicas="1"), hanging=(WHERE,), unasked={GROUPS: "denied"}
    )
    assert [one.severity for one in diagnose(facts)] == [Severity.PROBLEM, Severity.WARNING, Severity.NOTE]


def test_a_cluster_on_one_machine_may_advertise_it() -> None:
    here = {number: Address("127.0.0.1", 9090 + number) for number in (1, 2, 3)}
    facts = replace(HEALTHY, bootstrap=(Address("localhost", 9091),), addresses=here, has_authorizer=False)
    assert diagnose(facts) == []


def test_long_lists_are_counted() -> None:
    many = tuple(topic(f"t-{number}", copies=1) for number in range(9))
    (found,) = diagnose(replace(HEALTHY, topics=many, topic_configs={}))
    assert (
        found.words == "9 topics with one copy in a cluster of 3 brokers: t-0, t-1, t-2, t-3, t-4 and 4 more"
    )


def test_a_check_that_could_not_be_made_is_not_passed() -> None:
    facts = replace(HEALTHY, unasked=dict.fromkeys(NEEDED_BY, "denied"))
    assert find_passed(facts, diagnose(facts)) == ["health", "racks"]
    assert set(find_passed(HEALTHY, [])) == set(RULES) - {"unasked"}


def test_each_command_that_is_advised_is_there() -> None:
    advised = {one.advice for _, _, facts, _ in FAULTS.values() for one in diagnose(facts())}
    commands = {found for text in advised for found in re.findall(r"odradek ([a-z-]+(?: [a-z-]+)?)", text)}
    assert len(commands) > 5
    for command in commands:
        done = run_command((*command.split(), "--help"), environment=dict(os.environ))
        assert done.code == 0 and done.out.startswith(f"Usage: odradek {command} ".encode()), command


def test_a_group_is_named_in_a_command_as_a_shell_takes_it() -> None:
    hostile = "a; touch /tmp/b"
    for state, lag in (("Empty", 5), ("PreparingRebalance", 0)):
        group = GroupFacts(group_id=hostile, state=state, later_state=state, lag=lag)
        (found,) = diagnose(replace(HEALTHY, groups=(group,)))
        (line,) = re.findall("`(.+)`", found.advice)
        assert shlex.split(line)[-1] == hostile
