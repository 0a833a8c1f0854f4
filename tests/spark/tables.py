"""Runs of the pipeline in tests: the command as a call, and the log as another client reads it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO
from typing import Any, Final, NamedTuple

import pytest

from odradek_pipeline.cli.main import run
from odradek_pipeline.cli.table import COMMANDS
from odradek_pipeline.settings.declared import make_settings
from odradek_pipeline.work.command import Summary
from odradek_pipeline.work.worker import open_output

OUTPUT_FORMATS: Final = ("parquet", "delta", "iceberg")
PARQUET_BEFORE_PROOF: Final = (
    OUTPUT_FORMATS[0],
    *(pytest.param(name, marks=pytest.mark.proof) for name in OUTPUT_FORMATS[1:]),
)
"""For what does not depend on the format: `test_tables` and `test_snapshot` play all of them before `make proof`."""


class Ran(NamedTuple):
    """One command: its exit code, the events that it printed, and the last of them, the summary."""

    code: int
    events: list[dict[str, Any]]
    summary: dict[str, Any]


class Row(NamedTuple):
    """A record as both sides have it."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int


def pipeline(*arguments: str) -> Ran:
    """Run one subcommand in this process, on the session that is there."""
    printed = StringIO()
    with redirect_stdout(printed):
        code = run([*arguments, "--report", "json"])
    events = [json.loads(line) for line in printed.getvalue().splitlines()]
    return Ran(code, events, events[-1] if events else {})


class HookedConsole:
    """A console that calls `hook` with the name of each step."""

    def __init__(self, hook: Callable[[str], None]) -> None:
        self._hook = hook
        self.notices: list[str] = []

    def steps(self, name: str, /, **figures: object) -> None:
        self._hook(name)

    def watch(self, spark: Any) -> None:
        """Nothing to show."""

    def notice(self, text: str) -> None:
        self.notices.append(text)


def hooked(command: str, hook: Callable[[str], None], **settings: Any) -> Summary:
    """Run one subcommand with a hook at its steps. Raises what the command raises."""
    declared = COMMANDS[command]
    given = {name: (value, "the test") for name, value in settings.items()}
    return declared.run(make_settings(declared.settings, given), HookedConsole(hook))


def table(spark: Any, output_format: str, output: str) -> Any:
    """The rows of a table, as its own format reads it."""
    return open_output(spark, output_format, output).read_rows()


def logged(bootstrap: str, topic: str, *, is_read_committed: bool = True) -> Counter[Row]:
    """All records of a topic, as kafka-python reads them now."""
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap,
        isolation_level="read_committed" if is_read_committed else "read_uncommitted",
        enable_auto_commit=False,
        consumer_timeout_ms=1000,
    )
    try:
        keys = [
            TopicPartition(topic, number) for number in sorted(consumer.partitions_for_topic(topic) or ())
        ]
        consumer.assign(keys)
        consumer.seek_to_beginning(*keys)
        ends = consumer.end_offsets(keys)
        found: Counter[Row] = Counter()
        while any(consumer.position(key) < ends[key] for key in keys):
            for key, records in consumer.poll(timeout_ms=500).items():
                found.update(
                    Row(key.partition, one.offset, one.key, one.value, one.timestamp) for one in records
                )
        return found
    finally:
        consumer.close()


def stored(frame: Any, topic: str | None = None) -> Counter[Row]:
    """All rows of a table; a row that is there twice counts twice."""
    if topic is not None:
        frame = frame.where(frame.topic == topic)
    rows = frame.selectExpr("partition", "offset", "key", "value", "unix_millis(timestamp) as time").collect()
    return Counter(
        Row(one.partition, one.offset, _bytes(one.key), _bytes(one.value), one.time) for one in rows
    )


def _bytes(value: Any) -> bytes | None:
    return None if value is None else bytes(value)
