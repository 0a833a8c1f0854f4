"""The folder of an audit: its state, made exclusively version by version, and three tables of Parquet for jobs.

    _audit/00000000000000000042.json.z    the state; an underscore hides it from Spark
    audit_counts, audit_verdicts, audit_watermark     one file each, replaced whole after the state is committed

The tables follow from the state. Where a collection dies between the two, the next one writes them again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from odradek_pipeline.audit.facts import PRODUCED
from odradek_pipeline.audit.state import AuditState, TopicState
from odradek_pipeline.errors import FencedError, NotFoundError
from odradek_pipeline.outputs.parquet.store import FileStore, LocalStore, is_local, local_path, open_store
from odradek_pipeline.settings.groups import PARQUET, SparkSettings
from odradek_pipeline.work.command import Console
from odradek_pipeline.work.worker import open_spark_session

_FOLDER: Final = "_audit"
_VERSIONS_KEPT: Final = 10
_TIME: Final = pa.timestamp("us", tz="UTC")

COUNTS_SCHEMA: Final = pa.schema(
    [
        ("cluster", pa.string()),
        ("topic", pa.string()),
        ("topic_id", pa.string()),
        ("tier", pa.string()),
        ("partition", pa.int32()),
        ("window_start", _TIME),
        ("session", pa.string()),
        ("count", pa.int64()),
        ("bytes", pa.int64()),
        ("xor_hash", pa.string()),
        ("sum_hash", pa.string()),
        ("late", pa.int64()),
    ]
)
VERDICTS_SCHEMA: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("window_start", _TIME),
        ("window_end", _TIME),
        ("tier_from", pa.string()),
        ("tier_to", pa.string()),
        ("verdict", pa.string()),
        ("expected", pa.int64()),
        ("found", pa.int64()),
        ("late", pa.int64()),
        ("partitions", pa.string()),
        ("reason", pa.string()),
        ("first_seen", _TIME),
        ("changed", _TIME),
        ("version", pa.int64()),
    ]
)
WATERMARK_SCHEMA: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("tier", pa.string()),
        ("complete_until", _TIME),
        ("version", pa.int64()),
        ("blocked_by", pa.string()),
        ("updated", _TIME),
    ]
)


class AuditFolder:
    def __init__(self, store: FileStore, location: str) -> None:
        self._store = store
        self._location = location

    def read_newest(self) -> AuditState | None:
        """The newest state; None where there is no audit yet."""
        names = [one.path for one in self._store.list_files(_FOLDER) if one.path.endswith(".json.z")]
        for name in reversed(names):
            content = self._store.read(name)
            if content is not None:
                return AuditState.from_bytes(content, f"{self._location}/{name}")
        return None

    def require_newest(self) -> AuditState:
        """As `read_newest`. Raises NotFoundError."""
        found = self.read_newest()
        if found is None:
            raise NotFoundError(
                f"{self._location} has no audit: run `odradek-pipeline audit collect --audit {self._location}` first"
            )
        return found

    def commit(self, state: AuditState, now_ms: int) -> None:
        """Make `state` the next version, then write the tables. Raises FencedError when another one was faster."""
        state.version += 1
        state.committed_ms = now_ms
        if not self._store.create(_name(state.version), state.to_bytes()):
            raise FencedError(
                f"another program changed the audit in {self._location} at the same time, to version {state.version}; "
                "this one changed nothing. Run it again"
            )
        self._write("audit_counts", COUNTS_SCHEMA, _counts_rows(state))
        self._write("audit_verdicts", VERDICTS_SCHEMA, _verdict_rows(state))
        self._write("audit_watermark", WATERMARK_SCHEMA, _watermark_rows(state))
        for one in self._store.list_files(_FOLDER):
            if one.path < _name(state.version - _VERSIONS_KEPT):
                self._store.remove(one.path)

    def _write(self, table: str, schema: Any, rows: Iterable[dict[str, Any]]) -> None:
        written = pa.BufferOutputStream()
        pq.write_table(pa.Table.from_pylist(list(rows), schema=schema), written)
        self._store.write(f"{table}/{table}.parquet", written.getvalue().to_pybytes())


def _name(version: int) -> str:
    return f"{_FOLDER}/{max(version, 0):020d}.json.z"


def _time(milliseconds: int) -> datetime | None:
    return None if milliseconds < 0 else datetime.fromtimestamp(milliseconds / 1000, UTC)


def _counts_rows(state: AuditState) -> Iterable[dict[str, Any]]:
    for key, (_, counts) in state.reports.counts.items():
        topic = state.topics.get(key.topic)
        if topic is not None:
            yield _counts_row(topic, PRODUCED, key.topic_id, key.partition, key.start_ms, key.session, counts)
    for topic in state.topics.values():
        for name, tier in topic.tiers.items():
            for at, counts in tier.counts.items():
                yield _counts_row(topic, name, tier.topic_id, at.partition, at.start_ms, None, counts)


def _counts_row(
    topic: TopicState,
    tier: str,
    topic_id: str,
    partition: int,
    start_ms: int,
    session: str | None,
    counts: Any,
) -> dict[str, Any]:
    found = topic.tiers.get(tier)
    return {
        "cluster": topic.cluster_id if found is None else found.cluster_id,
        "topic": topic.topic,
        "topic_id": topic_id,
        "tier": tier,
        "partition": partition,
        "window_start": _time(start_ms),
        "session": session,
        "count": counts.count,
        "bytes": counts.size_bytes,
        "xor_hash": format(counts.xor_hash, "015x"),
        "sum_hash": format(counts.sum_hash, "015x"),
        "late": counts.late,
    }


def _verdict_rows(state: AuditState) -> Iterable[dict[str, Any]]:
    for topic in state.topics.values():
        for tier, verdicts in topic.verdicts.items():
            for one in verdicts.values():
                yield {
                    "topic": topic.topic,
                    "window_start": _time(one.start_ms),
                    "window_end": _time(one.start_ms + topic.window_ms),
                    "tier_from": PRODUCED,
                    "tier_to": tier,
                    "verdict": one.word,
                    "expected": one.expected,
                    "found": one.found,
                    "late": one.late,
                    "partitions": one.partitions,
                    "reason": one.reason,
                    "first_seen": _time(one.first_seen_ms),
                    "changed": _time(one.changed_ms),
                    "version": one.version,
                }


def _watermark_rows(state: AuditState) -> Iterable[dict[str, Any]]:
    for topic in state.topics.values():
        for tier, mark in topic.watermarks.items():
            yield {
                "topic": topic.topic,
                "tier": tier,
                "complete_until": _time(mark.complete_until_ms),
                "version": mark.version,
                "blocked_by": mark.blocked_by,
                "updated": _time(state.committed_ms),
            }


@contextmanager
def open_folder(location: str, settings: SparkSettings, console: Console) -> Iterator[AuditFolder]:
    """An audit's folder, with a Spark session only where its store needs one."""
    if is_local(location):
        yield AuditFolder(LocalStore(local_path(location)), location)
        return
    with open_spark_session(PARQUET, settings, console) as spark:
        yield AuditFolder(open_store(spark, location), location)
