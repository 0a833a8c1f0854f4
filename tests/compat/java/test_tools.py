"""Kafka's own command-line tools 4.1.1, by class name, as its scripts run them.

They share one JVM. Some are processes all the same: what ends with a code, and what prints when its JVM ends.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support import java
from tests.support.broker_process import CHECKOUT
from tests.support.java import JavaUnavailableError, kafka_classpath
from tests.support.kafka_tools import run_kafka_tool
from tests.support.peers import CreateTopic, skip_or_fail

pytestmark = [pytest.mark.clients, pytest.mark.java, pytest.mark.slow, pytest.mark.thorough]

TOOLS = "org.apache.kafka.tools"
GROUPS = f"{TOOLS}.consumer.group.ConsumerGroupCommand"
COMPATIBILITY_RUNS_MAX = 4


@pytest.fixture(scope="module", autouse=True)
def _tools_are_there() -> None:
    try:
        kafka_classpath()
    except JavaUnavailableError as error:
        skip_or_fail(str(error))


def tool(name: str, bootstrap: str, *arguments: str, **more: Any) -> str:
    """Standard output of one tool that takes `--bootstrap-server`; arguments are split at blanks."""
    words = " ".join(arguments).split()
    return run_kafka_tool(name, "--bootstrap-server", bootstrap, *words, **more).stdout


def produce(bootstrap: str, topic: str, lines: list[str], *properties: str) -> None:
    tool(f"{TOOLS}.ConsoleProducer", bootstrap, "--topic", topic, *properties, stdin="\n".join(lines) + "\n")


def consume(bootstrap: str, topic: str, count: int, *more: str) -> list[str]:
    bounds = ("--max-messages", str(count), "--timeout-ms", "20000")
    printed = tool(f"{TOOLS}.consumer.ConsoleConsumer", bootstrap, "--topic", topic, *bounds, *more)
    return printed.splitlines()


def own_lag(bootstrap: str, group: str) -> int:
    """The lag that `odradek groups describe` prints."""
    command = [sys.executable, "-m", "odradek", "groups", "describe", group, "--output", "json"]
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT / "broker")}
    printed = subprocess.run(
        [*command, "--bootstrap", bootstrap], capture_output=True, text=True, check=True, env=environment
    ).stdout
    lag: int = json.loads(printed)[0]["lag"]
    return lag


def test_topics_are_made_described_changed_listed_and_deleted(bootstrap: str, unique: str) -> None:
    topics = f"{TOOLS}.TopicCommand"
    named = f"--topic {unique}"
    tool(topics, bootstrap, "--create", named, "--partitions 2 --config retention.ms=1234567")
    described = tool(topics, bootstrap, "--describe", named)
    assert "PartitionCount: 2" in described
    assert "ReplicationFactor: 1" in described
    assert "retention.ms=1234567" in described
    tool(topics, bootstrap, "--alter", named, "--partitions 3")
    assert "Partition: 2" in tool(topics, bootstrap, "--describe", named)
    tool(topics, bootstrap, "--delete", named)
    assert unique not in tool(topics, bootstrap, "--list").split()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_the_console_and_a_group_with_lag_and_resets(
    bootstrap: str, topic: str, unique: str, protocol: str
) -> None:
    with_keys = "--property parse.key=true --property key.separator=:"
    produce(bootstrap, topic, ["a:1", "b:2", "c:3"], with_keys)
    as_group = f"--group {unique} --consumer-property group.protocol={protocol}"
    show = "--property print.key=true --property print.offset=true --property print.headers=true"
    printed = consume(bootstrap, topic, 3, "--from-beginning", as_group, show)
    assert printed == [
        "Offset:0\tNO_HEADERS\ta\t1",
        "Offset:1\tNO_HEADERS\tb\t2",
        "Offset:2\tNO_HEADERS\tc\t3",
    ]
    produce(bootstrap, topic, ["later"])

    def row() -> list[str]:
        printed = tool(GROUPS, bootstrap, "--describe", "--group", unique)
        (line,) = [line for line in printed.splitlines() if topic in line]
        cells = line.split()[3:6]
        assert own_lag(bootstrap, unique) == int(cells[2]), (
            "`odradek groups describe` and Kafka's tool differ"
        )
        return cells

    assert row() == ["3", "4", "1"]
    for how, wanted in (
        ("--to-offset 1", ["1", "4", "3"]),
        ("--to-datetime 2000-01-01T00:00:00.000", ["0", "4", "4"]),
        ("--shift-by 2", ["2", "4", "2"]),
    ):
        tool(GROUPS, bootstrap, f"--reset-offsets --group {unique} --topic {topic} --execute", how)
        assert row() == wanted
    assert unique in tool(GROUPS, bootstrap, "--list").split()
    assert "Empty" in tool(GROUPS, bootstrap, "--describe", "--group", unique, "--state")
    tool(GROUPS, bootstrap, "--delete-offsets", "--group", unique, "--topic", topic)
    tool(GROUPS, bootstrap, "--delete", "--group", unique)
    assert unique not in tool(GROUPS, bootstrap, "--list").split()


def test_configs_of_topics_and_brokers_are_changed(bootstrap: str, topic: str) -> None:
    configs = "kafka.admin.ConfigCommand"
    of_topic = f"--entity-type topics --entity-name {topic}"
    given = "max.message.bytes=4096,cleanup.policy=[compact,delete]"
    tool(configs, bootstrap, "--alter", of_topic, "--add-config", given)
    described = tool(configs, bootstrap, "--describe", of_topic)
    assert "max.message.bytes=4096" in described
    assert "cleanup.policy=compact,delete" in described
    tool(configs, bootstrap, "--alter", of_topic, "--delete-config max.message.bytes")
    assert "max.message.bytes" not in tool(configs, bootstrap, "--describe", of_topic)
    of_brokers = "--entity-type brokers --entity-default"
    tool(configs, bootstrap, "--alter", of_brokers, "--add-config log.retention.ms=7654321")
    assert "7654321" in tool(configs, bootstrap, "--describe", of_topic, "--all")
    tool(configs, bootstrap, "--alter", of_brokers, "--delete-config log.retention.ms")
    words = f"--bootstrap-server {bootstrap} --alter {of_topic} --add-config retention.ms=soon".split()
    refused = java.run_kafka_tool(configs, *words, check=False)
    assert refused.returncode != 0
    assert "retention.ms" in refused.stderr + refused.stdout


def test_records_are_deleted_and_offsets_shown(bootstrap: str, topic: str, tmp_path: Path) -> None:
    produce(bootstrap, topic, ["a", "b", "c", "d"])
    asked = tmp_path / "delete.json"
    asked.write_text(
        json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": 0, "offset": 3}]})
    )
    printed = tool(f"{TOOLS}.DeleteRecordsCommand", bootstrap, "--offset-json-file", str(asked))
    assert f"partition: {topic}-0\tlow_watermark: 3" in printed

    def offset(time: str) -> str:
        return tool(f"{TOOLS}.GetOffsetShell", bootstrap, "--topic", topic, "--time", time).strip()

    times = {"earliest": 3, "latest": 4, "-1": 4, "earliest-local": 3, "0": 3}
    assert {time: offset(time) for time in times} == {time: f"{topic}:0:{at}" for time, at in times.items()}
    # The first record of the newest millisecond, deleted or not, as long as its segment is there.
    assert offset("max-timestamp") in {f"{topic}:0:{at}" for at in range(4)}


def test_log_directories_and_versions_are_described(bootstrap: str, topic: str) -> None:
    produce(bootstrap, topic, ["x" * 1000])
    printed = tool(f"{TOOLS}.LogDirsCommand", bootstrap, "--describe", "--topic-list", topic)
    (line,) = [line for line in printed.splitlines() if line.startswith("{")]
    (directory,) = json.loads(line)["brokers"][0]["logDirs"]
    (part,) = directory["partitions"]
    assert (directory["error"], part["partition"], part["size"] > 1000) == (None, f"{topic}-0", True)
    versions = tool(f"{TOOLS}.BrokerApiVersionsCommand", bootstrap)
    assert "Produce(0): 0 to 13" in versions
    assert "Fetch(1): 4 to" in versions


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_the_verifiable_clients_agree(
    bootstrap: str, create_topic: CreateTopic, unique: str, protocol: str
) -> None:
    topic = create_topic(3)
    sent = java.run_kafka_tool(
        f"{TOOLS}.VerifiableProducer",
        *("--bootstrap-server", bootstrap, "--topic", topic, "--max-messages", "1000", "--acks", "-1"),
    ).stdout
    (summary,) = [json.loads(line) for line in sent.splitlines() if '"tool_data"' in line]
    assert (summary["sent"], summary["acked"]) == (1000, 1000)
    got = tool(
        f"{TOOLS}.VerifiableConsumer",
        bootstrap,
        *("--topic", topic, "--group-id", unique, "--max-messages", "1000"),
        *("--group-protocol", protocol, "--reset-policy", "earliest"),
    )
    events = [json.loads(line) for line in got.splitlines() if line.startswith("{")]
    assert sum(event["count"] for event in events if event["name"] == "records_consumed") == 1000
    committed = [event for event in events if event["name"] == "offsets_committed"]
    assert committed
    assert all(event["success"] for event in committed)


def test_the_compatibility_test_of_kafka_passes(broker: Any, bootstrap: str, topic: str) -> None:
    """Kafka's own check of what a broker of this version must offer.

    It gives its consumer ten seconds for the first record, which a busy machine may take to load the classes. Such an
    end is tried again, up to COMPATIBILITY_RUNS_MAX runs.
    """
    supported = (
        "offsets-for-times",
        "cluster-id",
        "create-topics",
        "describe-configs",
        "idempotent-producer",
        # Without an authorizer the answer is SECURITY_DISABLED, which Kafka's check takes as support.
        "describe-acls",
    )
    wanted = [argument for name in supported for argument in (f"--{name}-supported", "true")]
    for runs_left in reversed(range(COMPATIBILITY_RUNS_MAX)):
        try:
            run_kafka_tool(
                f"{TOOLS}.ClientCompatibilityTest",
                *("--bootstrap-server", bootstrap, "--topic", topic, "--num-cluster-nodes", "1", *wanted),
                *("--expect-record-too-large-exception", "false"),
            )
            return
        except AssertionError as error:
            if not runs_left or "Timed out after 10000 ms" not in str(error):
                raise


def test_the_performance_tools_run(bootstrap: str, topic: str) -> None:
    printed = run_kafka_tool(
        f"{TOOLS}.ProducerPerformance",
        *("--topic", topic, "--num-records", "5000", "--record-size", "100", "--throughput", "-1"),
        *("--producer-props", f"bootstrap.servers={bootstrap}", "acks=all"),
    ).stdout
    assert "5000 records sent" in printed
    asked = f"--topic {topic} --messages 5000 --timeout 20000"
    read = tool(f"{TOOLS}.ConsumerPerformance", bootstrap, asked)
    assert "5000" in read.splitlines()[-1]


def test_the_dump_tool_reads_and_verifies_our_segments(restartable: Any, bootstrap: str, topic: str) -> None:
    produce(bootstrap, topic, [f"line {number} " + "x" * 100 for number in range(2000)])
    restartable.stop()  # an index is on disk when its segment is closed
    (segment,) = sorted((restartable.data / f"{topic}-0").glob("*.log"))
    printed = run_kafka_tool(
        "kafka.tools.DumpLogSegments", "--files", str(segment), "--deep-iteration", "--print-data-log"
    ).stdout
    assert printed.count("payload: line ") == 2000
    assert "isvalid: true" in printed
    assert "isvalid: false" not in printed
    for index in (segment.with_suffix(".index"), segment.with_suffix(".timeindex")):
        checked = run_kafka_tool(
            "kafka.tools.DumpLogSegments", "--files", str(index), "--verify-index-only"
        ).stdout
        assert "offset:" in printed
        assert "Mismatches" not in checked
        assert "Found" not in checked
    restartable.start()


def test_the_dump_tool_decodes_our_groups(
    restartable: Any, bootstrap: str, create_topic: CreateTopic, unique: str
) -> None:
    """What stands in `__consumer_offsets` is Kafka's: its own decoder finds members, assignments and positions."""
    topic = create_topic(1)
    produce(bootstrap, topic, ["a", "b", "c"])
    for protocol in ("classic", "consumer"):
        as_group = ("--group", f"{unique}-{protocol}", "--consumer-property", f"group.protocol={protocol}")
        assert consume(bootstrap, topic, 3, "--from-beginning", *as_group) == ["a", "b", "c"]
    types = tool(f"{TOOLS}.GroupsCommand", bootstrap, "--list")
    for protocol in ("classic", "consumer"):
        (line,) = [line for line in types.splitlines() if line.startswith(f"{unique}-{protocol} ")]
        assert line.split()[1].lower() == protocol
    restartable.stop()
    segments = [
        str(path) for path in restartable.data.glob("__consumer_offsets-*/*.log") if path.stat().st_size
    ]
    printed = run_kafka_tool(
        "kafka.tools.DumpLogSegments",
        *("--files", ",".join(segments), "--offsets-decoder", "--deep-iteration"),
    ).stdout
    restartable.start()
    assert "isvalid: false" not in printed
    keys = [
        (key["type"], key["data"], value and value["data"])
        for key, value in map(_decoded, printed.splitlines())
        if key is not None and str(key["data"].get("group", key["data"].get("groupId"))).startswith(unique)
    ]
    # A consumer that waits long for its records commits its first position as well.
    commits = {
        key["group"]: value["offset"]
        for kind, key, value in keys
        if key.get("topic") == topic and kind == "1"
    }
    assert commits == {f"{unique}-classic": 3, f"{unique}-consumer": 3}
    # 2 is a classic group, 3 to 8 what a consumer group consists of.
    assert {"2", "3", "5", "6", "7", "8"} <= {kind for kind, _, _ in keys}


def _decoded(line: str) -> tuple[Any, Any]:
    """(key, value) of a line of the decoder's; (None, None) of any other."""
    if " key: {" not in line:
        return None, None
    key, _, value = line.partition(" key: ")[2].partition(" payload: ")
    return json.loads(key), None if value in ("", "<DELETE>") else json.loads(value)
