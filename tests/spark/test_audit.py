"""`odradek-pipeline audit` with real producers, a real broker and Spark: what is lost, doubled, late or stopped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from odradek_pipeline.errors import PipelineExitCode
from tests.spark.audited import BASE_MS, WINDOW_MS, AuditedProducer
from tests.spark.records import send
from tests.spark.tables import Ran, pipeline
from tests.support.peers import CreateTopic
from tests.support.polling import SECONDS_MAX
from tests.support.samples import numbered

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300), pytest.mark.thorough]


class Audited:
    """A topic of two partitions with a producer, a table and an audit of its own."""

    def __init__(self, bootstrap: str, topic: str, folder: Path) -> None:
        self.bootstrap, self.topic = bootstrap, topic
        self.audit, self.output = str(folder / "audit"), str(folder / "table")
        self.audit_topic = f"audit-{topic}"
        self.producer = self.another()

    def another(self, lease_ms: int = 3_600_000) -> AuditedProducer:
        return AuditedProducer(self.bootstrap, self.topic, lease_ms=lease_ms, audit_topic=self.audit_topic)

    def load(self, *options: str) -> None:
        at = ("--bootstrap", self.bootstrap, "--output", self.output)
        assert pipeline("load", "--topic", self.topic, "--reader", "odradek", *at, *options).code == 0

    def collect(self, *options: str) -> Ran:
        ran = pipeline(
            *("audit", "collect", "--bootstrap", self.bootstrap, "--topic", self.topic),
            *("--audit", self.audit, "--audit-topic", self.audit_topic, "--output", self.output),
            *("--lateness", "0s", *options),
        )
        assert ran.code == 0
        return ran

    def verdicts(self, tier: str) -> dict[int, tuple[str, int, int]]:
        """(verdict, expected, found) by the minute."""
        ran = pipeline("audit", "verdicts", "--audit", self.audit, "--tier", tier, "--topic", self.topic)
        start = "2026-03-01T12:%02d:00Z"
        minutes = {start % minute: minute for minute in range(60)}
        return {
            minutes[one["window_start"]]: (one["verdict"], one["expected"], one["found"])
            for one in ran.summary["verdicts"]
        }

    def wait(self, minute: int, *options: str, tier: str = "loaded") -> Ran:
        until = str(BASE_MS + minute * WINDOW_MS)
        at = ("--audit", self.audit, "--topic", self.topic, "--tier", tier, "--until", until)
        return pipeline("audit", "wait", *at, "--timeout", "0", *options)


@pytest.fixture
def audited(
    spark: Any, bootstrap: str, create_topic: CreateTopic, tmp_path: Path
) -> Iterator[Callable[[], Audited]]:
    made: list[Audited] = []

    def make() -> Audited:
        made.append(Audited(bootstrap, create_topic(2), tmp_path))
        return made[-1]

    yield make


def test_a_clean_run_is_complete(audited: Callable[[], Audited], spark: Any) -> None:
    one = audited()
    for minute in range(3):
        one.producer.send(minute, numbered(100))
    one.producer.publish(2)
    one.load()
    one.collect()
    assert one.verdicts("loaded") == {
        0: ("complete", 100, 100),
        1: ("complete", 100, 100),
        2: ("waiting", 100, 100),
    }
    assert one.wait(2).code == PipelineExitCode.OK
    assert one.wait(3).code == PipelineExitCode.INCOMPLETE
    one.producer.low_time_ms = BASE_MS + 10 * WINDOW_MS
    one.producer.close()
    one.collect()
    assert Counter(word for word, _, _ in one.verdicts("stored").values()) == {"complete": 3}
    ready = one.wait(3)
    assert (ready.code, ready.summary["complete"], ready.summary["version"]) == (0, True, 0)
    rows = spark.read.parquet(one.audit + "/audit_verdicts").where("verdict = 'complete'").collect()
    assert {(row.tier_from, row.tier_to) for row in rows} == {("produced", "stored"), ("produced", "loaded")}
    marks = spark.read.parquet(one.audit + "/audit_watermark").where("tier = 'loaded'").collect()
    assert [row.topic for row in marks] == [one.topic]
    counts = spark.read.parquet(one.audit + "/audit_counts").groupBy("tier").sum("count").collect()
    assert {row[0]: row[1] for row in counts} == {"produced": 300, "stored": 300, "loaded": 300}


def test_loss_duplicates_and_changes_are_named(audited: Callable[[], Audited], spark: Any) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    one = audited()
    for minute in range(4):
        one.producer.send(minute, numbered(100))
    one.producer.publish(4)
    one.producer.close()
    one.load()
    one.collect()
    assert {word for word, _, _ in one.verdicts("loaded").values()} == {"complete"}
    version = one.wait(4).summary["version"]
    # Rows of the first partition's file: one less in minute 0, one twice in minute 1, one other in minute 2.
    path = next(
        path
        for path in sorted(Path(one.output).rglob("*.parquet"))
        if pq.read_table(path)["partition"][0].as_py() == 0
    )
    rows = pq.read_table(path)
    table = rows.to_pylist()
    changed = [row for row in table if row["offset"] != 3]
    changed.append(next(row for row in table if row["offset"] == 60))
    for row in changed:
        if row["offset"] == 110:
            row["value"] = b"another"
    spoiled = pa.Table.from_pylist(changed, schema=rows.schema)
    pq.write_table(spoiled, path, use_deprecated_int96_timestamps=True)  # as Spark writes them
    (path.parent / f".{path.name}.crc").unlink(missing_ok=True)
    one.collect()
    assert one.verdicts("loaded") == {
        0: ("missing", 100, 99),
        1: ("duplicated", 100, 101),
        2: ("changed", 100, 100),
        3: ("complete", 100, 100),
    }
    assert {word for word, _, _ in one.verdicts("stored").values()} == {"complete"}
    assert one.wait(4).code == PipelineExitCode.OK, "complete_until does not go back"
    again = one.wait(4, "--since-version", str(version))
    assert (again.code, len(again.summary["reopened"])) == (PipelineExitCode.REOPENED, 3)


def test_records_without_a_report_and_late_ones(audited: Callable[[], Audited], bootstrap: str) -> None:
    one = audited()
    one.producer.send(0, numbered(10))
    one.producer.send(1, numbered(10))
    one.producer.publish(2)
    one.load()
    one.collect()
    assert one.wait(2).summary["version"] == 0
    # A record of minute 0 after the promise: the table has time to follow, then it has it.
    one.producer.send(0, [b"late"])
    one.producer.publish(3)
    one.collect("--lateness", "1h")
    assert one.verdicts("loaded")[0] == ("reopened", 11, 10)
    assert one.verdicts("stored")[0] == ("late", 11, 11)
    opened = one.wait(2, "--since-version", "0")
    assert (opened.code, opened.summary["complete_until"]) == (
        PipelineExitCode.REOPENED,
        "2026-03-01T12:02:00Z",
    )
    one.load()
    one.collect()
    assert one.verdicts("loaded")[0] == ("late", 11, 11)
    closed = one.wait(2)
    assert (closed.code, closed.summary["version"]) == (PipelineExitCode.OK, 1)
    assert one.wait(2, "--since-version", "1").code == PipelineExitCode.OK
    one.producer.close()


def test_loss_and_strangers_in_the_log_are_named(audited: Callable[[], Audited], bootstrap: str) -> None:
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient

    one = audited()
    for minute in range(3):
        one.producer.send(minute, numbered(10))
    one.producer.publish(3)
    stranger = AuditedProducer(bootstrap, one.topic, audit_topic=f"nobody-reads-{one.topic}")
    stranger.send(1, numbered(3))
    stranger.close()
    key, admin = TopicPartition(one.topic, 0, 2), AdminClient({"bootstrap.servers": bootstrap})
    admin.delete_records([key])[key].result(SECONDS_MAX)
    one.load()
    one.collect()
    expected = {0: ("missing", 10, 8), 1: ("duplicated", 10, 13), 2: ("complete", 10, 10)}
    assert one.verdicts("stored") == expected
    assert one.verdicts("loaded") == expected, "the table has what the log had"
    blocked = one.wait(3, tier="stored")
    assert (blocked.code, blocked.summary["complete_until"]) == (
        PipelineExitCode.INCOMPLETE,
        "2026-03-01T12:00:00Z",
    )
    assert "window 2026-03-01T12:00:00Z: missing" in blocked.summary["blocked_by"]
    one.producer.close()


def test_a_stopped_tier_and_a_dead_producer(audited: Callable[[], Audited], bootstrap: str) -> None:
    one = audited()
    dead = one.another(lease_ms=1)
    dead.send(0, numbered(10))
    dead.publish(1)
    one.producer.send(0, numbered(10))
    one.producer.send(1, numbered(10))
    one.producer.publish(2)
    one.load()
    one.producer.send(2, numbered(10))
    dead.stop()
    one.producer.publish(3)
    one.collect()
    assert one.verdicts("loaded") == {0: ("complete", 20, 20), 1: ("stalled", 10, 10), 2: ("stalled", 10, 0)}
    blocked = one.wait(3)
    assert (blocked.code, blocked.summary["complete_until"]) == (30, "2026-03-01T12:01:00Z")
    assert dead.audit.session in blocked.summary["blocked_by"]
    waive = ("audit", "waive", "--audit", one.audit, "--topic", one.topic, "--reason", "its machine is gone")
    assert pipeline(*waive).code == PipelineExitCode.USAGE
    assert pipeline(*waive, "--session", "unknown").code == PipelineExitCode.NOT_FOUND
    assert pipeline(*waive, "--session", dead.audit.session).code == 0
    assert one.wait(2).code == PipelineExitCode.OK
    stopped = one.wait(3)
    assert stopped.code == PipelineExitCode.INCOMPLETE
    assert "loaded stopped before partitions 0, 1" in stopped.summary["blocked_by"]
    assert one.wait(3, tier="stored").code == PipelineExitCode.OK
    span = ("--start", str(BASE_MS + 2 * WINDOW_MS), "--until", str(BASE_MS + 3 * WINDOW_MS))
    assert pipeline(*waive, *span).code == 0
    assert one.verdicts("loaded")[2] == ("waived", 10, 0)
    assert one.wait(3).code == PipelineExitCode.OK
    one.producer.close()


def test_dead_letters_count_as_loaded(audited: Callable[[], Audited], tmp_path: Path) -> None:
    one = audited()
    one.producer.send(0, [b'{"n": 1}', b"no JSON", b'{"n": 2}', b"nor this", b""])
    one.producer.publish(1)
    schema = tmp_path / "schema.json"
    schema.write_text('{"type":"struct","fields":[{"name":"n","type":"long","nullable":true,"metadata":{}}]}')
    one.load(
        *("--value-format", "json", "--value-schema", str(schema)),
        *("--on-bad-record", "dead-letter", "--bad-share-max", "1"),
    )
    assert one.collect().summary["loaded"] == 5
    assert one.verdicts("loaded") == {0: ("complete", 5, 5)}
    one.collect("--dead-letter-topic", one.topic)
    assert one.verdicts("loaded")[0][2] == 2, "another topic has no letters"
    one.producer.close()


def test_a_mirror_and_topics_that_cannot_be_audited(
    audited: Callable[[], Audited],
    bootstrap: str,
    create_topic: CreateTopic,
    capsys: pytest.CaptureFixture[str],
) -> None:
    one = audited()
    one.producer.send(0, numbered(10))
    one.producer.send(1, numbered(10))
    one.producer.publish(2)
    one.load()
    # The mirror has one partition more, and lacks a record of minute 1.
    create_topic(3, f"copy.{one.topic}")
    copy = AuditedProducer(bootstrap, f"copy.{one.topic}", audit_topic="other")
    copy.send(0, numbered(10), partitions=3)
    copy.send(1, numbered(9), partitions=3)
    one.collect("--mirror-bootstrap", bootstrap, "--mirror-prefix", "copy.")
    assert one.verdicts("mirrored") == {0: ("complete", 10, 10), 1: ("stalled", 10, 9)}
    copy.send(2, numbered(1), partitions=3)
    one.collect("--mirror-bootstrap", bootstrap, "--mirror-prefix", "copy.")
    assert one.verdicts("mirrored")[1] == ("missing", 10, 9)
    copy.close()
    one.producer.close()
    stamped = create_topic(1, f"stamped-{one.topic}")
    collect = ("audit", "collect", "--bootstrap", bootstrap, "--audit", one.audit, "--topic")
    from confluent_kafka.admin import AdminClient, ConfigResource

    admin = AdminClient({"bootstrap.servers": bootstrap})
    for name, value, said in (
        ("message.timestamp.type", "LogAppendTime", "has LogAppendTime"),
        ("cleanup.policy", "compact", "is compacted"),
    ):
        resource = ConfigResource(ConfigResource.Type.TOPIC, stamped, set_config={name: value})
        admin.alter_configs([resource])[resource].result(SECONDS_MAX)
        assert pipeline(*collect, stamped).code == PipelineExitCode.USAGE
        assert said in capsys.readouterr().err
    assert pipeline(*collect, "no-such").code == PipelineExitCode.NOT_FOUND
    send(bootstrap, one.topic, numbered(1), 1)
    assert pipeline("audit", "verdicts", "--audit", one.output).code == PipelineExitCode.NOT_FOUND
