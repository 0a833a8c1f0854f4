"""Runs `odradek brokers disk`: adds up the bytes of replicas, and prints them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from odradek.cli.exit_codes import ExitCode, exit_code_for
from odradek.cli.shared.options import CommandSession
from odradek.cli.shared.output import Document, format_bytes, print_error, show
from odradek.client.admin.disks import Directories, ReplicaOnDisk, directories, replicas, volumes
from odradek.client.client import Client
from odradek.client.results import LogDirectoryDescription
from odradek.foundation.errors import OdradekError


def disk(
    session: CommandSession, *, broker_ids: tuple[int, ...], by: tuple[str, ...], topics: tuple[str, ...]
) -> int:
    found = session.run(lambda client: _ask(client, broker_ids, topics))
    rows = _sums(replicas(found), by)
    answered = [answer for answer in found.values() if not isinstance(answer, OdradekError)]
    # Volumes have no topics: only rows of brokers or directories have their bytes.
    with_room = not {"topic", "partition"} & set(by)
    if with_room:
        rows = _with_room(rows, by, [one for answer in answered for one in answer])
    _print(session, rows, by, with_room=with_room)
    exit_code: int = ExitCode.OK
    for broker, answer in found.items():
        if isinstance(answer, OdradekError):
            print_error(f"the disks of broker {broker} are left out: {answer}")
            exit_code = exit_code or exit_code_for(answer)
            continue
        for directory in answer:
            if directory.error is not None:
                print_error(f"broker {broker}: {directory.path} is left out: {directory.error}")
    return exit_code


async def _ask(client: Client, broker_ids: Sequence[int], topics: Sequence[str]) -> Directories:
    partitions = None
    if topics:
        known = await client.topics(topics)
        partitions = [key for topic in topics for key in known.partitions(topic)]
    cluster = await client.with_retries(lambda: client.refresh(()))
    cluster.require_brokers(broker_ids)
    return await directories(client, broker_ids or cluster.brokers, partitions=partitions)


def _sums(found: Sequence[ReplicaOnDisk], by: Sequence[str]) -> list[Document]:
    """One row for each combination of the columns, the largest first."""
    rows: dict[tuple[object, ...], Document] = {}
    for one in found:
        key = tuple(getattr(one, name) for name in by)
        row = rows.setdefault(key, _empty_row(by, key))
        row["replicas"] += 1
        row["bytes"] += one.size_bytes
    return _largest_first(rows.values(), by)


def _empty_row(by: Sequence[str], key: Sequence[object]) -> Document:
    return {**dict(zip(by, key, strict=True)), "replicas": 0, "bytes": 0}


def _largest_first(rows: Iterable[Document], by: Sequence[str]) -> list[Document]:
    return sorted(rows, key=lambda row: (-row["bytes"], *(row[name] for name in by)))


def _with_room(
    rows: Sequence[Document], by: Sequence[str], directories: Sequence[LogDirectoryDescription]
) -> list[Document]:
    """The rows with the bytes of their volumes, and rows for directories that hold no replica or failed."""
    fields = {"broker": "broker_id", "directory": "path"}
    groups: dict[tuple[object, ...], list[LogDirectoryDescription]] = {}
    for one in directories:
        groups.setdefault(tuple(getattr(one, fields[name]) for name in by), []).append(one)
    sums = {tuple(row[name] for name in by): row for row in rows}
    result = []
    for key, members in groups.items():
        row = sums.get(key) or _empty_row(by, key)
        # The same path on two brokers is two volumes.
        rooms = [
            volumes([one for one in members if one.broker_id == broker])
            for broker in {one.broker_id for one in members}
        ]
        known = [room for room in rooms if room is not None]
        result.append(
            {
                **row,
                "total_bytes": sum(total for total, _ in known) if known else None,
                "usable_bytes": sum(usable for _, usable in known) if known else None,
                "is_full": any(one.is_full for one in members),
                "failed": sum(one.error is not None for one in members),
            }
        )
    return _largest_first(result, by)


def _print(session: CommandSession, rows: Sequence[Document], by: Sequence[str], *, with_room: bool) -> None:
    headers = [*(name.upper() for name in by), "REPLICAS", "SIZE"]
    cells = [[*(row[name] for name in by), row["replicas"], format_bytes(row["bytes"])] for row in rows]
    if with_room:
        headers += ["FREE", "TOTAL", "STATE"]
        for row, line in zip(rows, cells, strict=True):
            for name in ("usable_bytes", "total_bytes"):
                line.append(None if row[name] is None else format_bytes(row[name]))
            line.append("failed" if row["failed"] else "full" if row["is_full"] else "ok")
    show(session.output, headers=headers, rows=cells, document=rows, empty="no replica is on these disks")
