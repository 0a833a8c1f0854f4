"""Runs `odradek dump-log`: reads and prints one file after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import click

from odradek.cli.exit_codes import ExitCode
from odradek.cli.records import dump
from odradek.cli.records.dump import Damage, SegmentReport, find_files, read_segment
from odradek.cli.records.json_lines import json_record
from odradek.cli.shared.output import JSON, TABLE, count, print_json_line
from odradek.cli.shared.progress import ProgressBar
from odradek.cli.shared.times import format_moment
from odradek.wire.records.batch import BatchHeader, BatchView
from odradek.wire.records.record import records


def dump_log(
    ctx: click.Context,
    *,
    paths: tuple[str, ...],
    with_records: bool,
    verify_only: bool,
    output: str | None,
    verbose: bool,
) -> int:
    above = getattr(ctx.find_root().obj, "output", None)
    printer = _Printer(
        is_json=(output or above or TABLE) == JSON, with_records=with_records, verify_only=verify_only
    )
    files = find_files(paths)
    # A segment comes before the indexes that are checked against it.
    files.sort(key=lambda path: (str(Path(path).parent), not path.endswith(".log"), path))
    total_bytes = sum(Path(path).stat().st_size for path in files)
    with ProgressBar("Verifying", total=total_bytes, unit="bytes", is_shown=verify_only) as bar:
        try:
            for path in files:
                printer.file(path)
                bar.advance(Path(path).stat().st_size)
        except KeyboardInterrupt:
            printer.finish(is_interrupted=True)
            raise
    return printer.finish()


class _Printer:
    """Reads and prints one file after the other."""

    def __init__(self, *, is_json: bool, with_records: bool, verify_only: bool) -> None:
        self._is_json = is_json
        self._with_records = with_records
        self._verify_only = verify_only
        self._segments: dict[str, SegmentReport] = {}
        self._files = 0
        self._damage = 0

    def file(self, path: str) -> None:
        self._files += 1
        suffix = Path(path).suffix
        stem = path.removesuffix(suffix)
        segment = self._segments.get(stem)
        if suffix == ".log":
            self._folder_changed(stem)
            self._segment(path, stem)
        elif suffix == ".index":
            entries, damage = dump.check_offset_index(path, segment)
            self._summary(path, "index", {"entries": entries}, damage)
        elif suffix == ".timeindex":
            entries, damage = dump.check_time_index(path, segment)
            self._summary(path, "timeindex", {"entries": entries}, damage)
        elif suffix == ".txnindex":
            aborted, damage = dump.check_transaction_index(path)
            self._summary(path, "txnindex", {"entries": len(aborted)}, damage, rows=aborted)
        else:
            producers, damage = dump.check_snapshot(path)
            self._summary(path, "snapshot", {"producers": len(producers)}, damage, rows=producers)

    def _folder_changed(self, stem: str) -> None:
        """Keep only the segments of the directory at hand: a broker may have very many."""
        if self._segments and Path(next(iter(self._segments))).parent != Path(stem).parent:
            self._segments.clear()

    def _segment(self, path: str, stem: str) -> None:
        if not self._is_json and not self._verify_only:
            click.echo(path)
        report = read_segment(path, on_batch=None if self._verify_only else self._batch)
        self._segments[stem] = report
        counts = {
            "base_offset": report.base_offset,
            "last_offset": report.last_offset,
            "batches": report.batches,
            "records": report.records,
            "bytes": report.size_bytes,
        }
        self._summary(path, "log", counts, report.damage)

    def _batch(self, position: int, header: BatchHeader, data: memoryview) -> None:
        self._print("batch", _batch_fields(position, header))
        if not self._with_records or header.is_control:
            return
        for record in records(BatchView(bytes(data))):
            self._print("record", json_record(record), indent=4)

    def _print(
        self, kind: str, fields: Mapping[str, object], text: str | None = None, *, indent: int = 2
    ) -> None:
        """Print one JSON object, or the text; without one the fields."""
        if self._is_json:
            print_json_line({"kind": kind, **fields})
        else:
            click.echo(f"{'':{indent}}{_text(fields)}" if text is None else text)

    def _summary(
        self,
        path: str,
        kind: str,
        counts: dict[str, int],
        damage: list[Damage],
        rows: Sequence[dict[str, int]] = (),
    ) -> None:
        self._damage += len(damage)
        verdict = "DAMAGED" if damage else "ok"
        fields = {"path": path, **counts, "damaged": bool(damage)}
        self._print(kind, fields, f"{verdict}  {path}  {_text(counts)}")
        for row in rows if not self._verify_only else ():
            self._print(f"{kind}_entry", row)
        for found in damage:
            self._print("damage", asdict(found), f"  byte {found.position}: {found.reason}")

    def finish(self, *, is_interrupted: bool = False) -> int:
        """Print the sum, also after Ctrl-C: of what was read until then. Returns the exit code."""
        whole = "no damage until then" if is_interrupted else "all whole"
        damage = count(self._damage, "damage") if self._damage else whole
        total = {"files": self._files, "damage": self._damage}
        if is_interrupted:
            total["is_interrupted"] = True
        began = "interrupted in " if is_interrupted else ""
        self._print("total", total, f"{began}{count(self._files, 'file')}, {damage}")
        return ExitCode.DAMAGED if self._damage else ExitCode.OK


def _batch_fields(position: int, header: BatchHeader) -> dict[str, object]:
    fields: dict[str, object] = {
        "position": position,
        "offsets": f"{header.base_offset}-{header.last_offset}",
        "records": header.record_count,
        "bytes": header.size_bytes,
        "max_timestamp": format_moment(header.max_timestamp_ms),
        "timestamp_type": header.timestamp_type.name.lower(),
        "compression": header.compression.name.lower(),
        "leader_epoch": header.leader_epoch,
        "crc": f"{header.crc:#010x}",
    }
    if header.producer_id >= 0:
        fields.update(
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            sequences=f"{header.base_sequence}-{header.last_sequence}",
        )
    if header.is_transactional:
        fields["transactional"] = True
    if header.is_control:
        fields["control"] = True
    return fields


def _text(fields: Mapping[str, object]) -> str:
    return " ".join(f"{key}={value}" for key, value in fields.items() if value is not None)
