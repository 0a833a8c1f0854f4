"""Runs `odradek brokers empty-disk`."""

from __future__ import annotations

from odradek.cli.exit_codes import ExitCode
from odradek.cli.shared.options import CommandSession
from odradek.cli.shared.output import count, format_bytes, plain, print_error, show
from odradek.client.admin.emptying import DirectoryAdmin, DirectoryMove, Emptying
from odradek.client.client import Client


def empty_disk(
    session: CommandSession, *, broker_id: int, path: str, onto: tuple[str, ...], dry_run: bool, wait: bool
) -> int:
    async def work(client: Client) -> tuple[list[DirectoryMove], Emptying | None]:
        (await client.with_retries(lambda: client.refresh(()))).require_brokers([broker_id])
        admin = DirectoryAdmin(client)
        if dry_run:
            return await admin.plan(broker_id, path, onto=onto), None
        moves = await admin.empty(broker_id, path, onto=onto)
        return moves, await admin.wait_until_empty(broker_id, path) if wait else None

    moves, left = session.run(work)
    show(
        session.output,
        headers=("TOPIC", "PARTITION", "BYTES", "TO"),
        rows=[(one.topic, one.partition, format_bytes(one.size_bytes), one.to) for one in moves],
        document=[plain(one) for one in moves],
        empty=f"no replica is in {path} of broker {broker_id}",
    )
    if left is not None and left.replicas:
        print_error(
            f"{count(left.replicas, 'replica')} stayed in {path}, {format_bytes(left.bytes_left)}: the log of broker "
            f"{broker_id} says why; the same command tries again"
        )
        return ExitCode.REFUSED
    return ExitCode.OK
