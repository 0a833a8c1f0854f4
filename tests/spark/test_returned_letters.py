"""`dead-letters list` and `return` with a real broker, without Spark: each letter goes back once, also after a kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from odradek_pipeline.errors import FencedError, PipelineExitCode
from tests.spark.letters import Letter, letters
from tests.spark.tables import hooked, pipeline
from tests.support.peers import CreateTopic
from tests.support.polling import SECONDS_MAX

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]


def topic_id(bootstrap: str, topic: str) -> str:
    from confluent_kafka import TopicCollection

    admin = AdminClient({"bootstrap.servers": bootstrap})
    found = admin.describe_topics(TopicCollection([topic]))[topic].result(SECONDS_MAX)
    id_ = found.topic_id
    return str(uuid_of(id_.get_most_significant_bits(), id_.get_least_significant_bits()))


def uuid_of(high: int, low: int) -> object:
    import uuid

    return uuid.UUID(int=((high & (2**64 - 1)) << 64) | (low & (2**64 - 1)))


def send_letters(bootstrap: str, dead: str, topic: str, offsets: list[int], *, attempt: int = 1) -> None:
    """Letters as a run writes them, of records with the value of their offset."""
    producer = Producer({"bootstrap.servers": bootstrap})
    said = {
        "topic": topic,
        "topic_id": topic_id(bootstrap, topic),
        "partition": 0,
        "timestamp": 1_700_000_000_000,
    }
    for offset in offsets:
        more = {"offset": offset, "run": "r", "error": "why", "schema": "s", "attempt": attempt}
        headers: list[tuple[str, str | bytes | None]] = [
            (f"odradek.dlq.{name}", str(value).encode()) for name, value in {**said, **more}.items()
        ]
        # A record that was returned before has a header of its own with the attempt: the last one counts.
        own: list[tuple[str, str | bytes | None]] = [
            ("trace", b"\x00%d" % offset),
            ("odradek.dlq.attempt", b"0"),
        ]
        producer.produce(dead, b"%d" % offset, key=b"k", partition=0, headers=own + headers)
        producer.poll(0)
    assert producer.flush(30) == 0


def numbers(found: list[Letter]) -> Counter[int]:
    return Counter(int(one.value or b"-1") for one in found)


def test_letters_go_back_once_and_stop_at_the_last_attempt(bootstrap: str, create_topic: CreateTopic) -> None:
    topic, dead = create_topic(1), create_topic(1)
    send_letters(bootstrap, dead, topic, [5, 7, 9, 7])
    send_letters(bootstrap, dead, topic, [11], attempt=3)
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(dead, b"no letter")
    assert producer.flush(30) == 0
    at = ("--bootstrap", bootstrap, "--topic", dead)
    shown = pipeline("dead-letters", "list", *at, "--count", "3").summary
    counts = {name: shown[name] for name in ("letters", "waiting", "exhausted", "repeated", "other_records")}
    assert counts == {"letters": 5, "waiting": 3, "exhausted": 1, "repeated": 1, "other_records": 1}
    assert [one["state"] for one in shown["newest"]] == ["other", "exhausted", "repeated"]
    assert shown["newest"][1]["origin"] == f"{topic}-0 offset 11"
    ran = pipeline("dead-letters", "return", *at, "--batch-letters", "2")
    assert (ran.code, ran.summary["returned"], ran.summary["exhausted"]) == (PipelineExitCode.OK, 3, 1)
    assert (ran.summary["repeated"], ran.summary["other_records"]) == (1, 1)
    back = letters(bootstrap, topic)
    assert [one.value for one in back] == [b"5", b"7", b"9"]
    assert back[0] == Letter(b"k", b"5", [("trace", b"\x005"), ("odradek.dlq.attempt", b"1")])
    again = pipeline("dead-letters", "return", *at)
    assert (again.code, again.summary["returned"]) == (PipelineExitCode.OK, 0)
    assert pipeline("dead-letters", "list", *at).summary["handled"] == 3
    assert pipeline("dead-letters", "list", *at, "--topic", f"{dead}-none").code == PipelineExitCode.NOT_FOUND


def test_a_run_that_was_overtaken_stops_at_a_whole_transaction(
    bootstrap: str, create_topic: CreateTopic
) -> None:
    topic, dead = create_topic(1), create_topic(1)
    send_letters(bootstrap, dead, topic, list(range(30)))
    at = ("--bootstrap", bootstrap, "--topic", dead)
    others: list[int] = []

    def overtake(step: str) -> None:
        if not others:
            others.append(pipeline_in_process(*at))

    with pytest.raises(FencedError, match="another run returns the letters"):
        hooked("dead-letters return", overtake, bootstrap=bootstrap, topic=dead, batch_letters=10)
    assert others == [20]
    assert numbers(letters(bootstrap, topic)) == Counter(range(30))


def pipeline_in_process(*arguments: str) -> int:
    """How many letters another process returned."""
    done = subprocess.run(
        [sys.executable, "-m", "odradek_pipeline.entrypoint", "dead-letters", "return", *arguments],
        capture_output=True,
        text=True,
        check=True,
        env=with_sources(),
    )
    return int(json.loads(done.stdout.splitlines()[-1])["returned"])


def with_sources() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


@pytest.mark.thorough
def test_a_killed_run_is_finished_by_the_next(bootstrap: str, create_topic: CreateTopic) -> None:
    topic, dead = create_topic(1), create_topic(1)
    send_letters(bootstrap, dead, topic, list(range(2000)))
    at = ("--bootstrap", bootstrap, "--topic", dead)
    command = [sys.executable, "-m", "odradek_pipeline.entrypoint", "dead-letters", "return", *at]
    for kills in range(3):
        process = subprocess.Popen(
            [*command, "--batch-letters", "50"], stdout=subprocess.PIPE, text=True, env=with_sources()
        )
        assert process.stdout is not None
        for _ in range(kills + 1):
            assert "returned" in process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
    ran = pipeline("dead-letters", "return", *at)
    assert ran.code == PipelineExitCode.OK and 0 < ran.summary["returned"] < 2000
    assert numbers(letters(bootstrap, topic)) == Counter(range(2000))
