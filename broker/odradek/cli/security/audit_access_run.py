"""Runs `odradek audit-access`: looks at the files or at ZooKeeper's nodes, and prints what is open."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import click

from odradek.broker.process.environment import REGISTRY_FILE
from odradek.cli.exit_codes import ExitCode
from odradek.cli.shared.options import CommandSession
from odradek.cli.shared.output import show
from odradek.cli.shared.property_files import read_entries
from odradek.foundation.private_files import exposure, file_mode
from odradek.foundation.registry_errors import NoNode
from odradek.foundation.settings.areas.zookeeper import ZookeeperSettings
from odradek.foundation.settings.broker_settings import Settings
from odradek.metadata.image import paths


class Exposed(NamedTuple):
    """`kind` is node, directory, file or link; `words` are the rights of others."""

    kind: str
    path: str
    words: str


def audit_access(
    session: CommandSession, *, data: str | None, zookeeper: str | None, config: str | None
) -> int:
    entries = {} if config is None else read_entries(config, what="--config")
    connect = zookeeper or entries.get("zookeeper.connect")
    directories = [data] if data else []
    if not data and ("log.dirs" in entries or "log.dir" in entries):
        directories += Settings(
            {key: entries[key] for key in ("log.dirs", "log.dir") if key in entries}
        ).log_directories
    if not connect and not directories:
        raise click.UsageError("name what to look at: --data DIR, --zookeeper CONNECT, or --config FILE")
    found = [one for directory in directories for one in _of_directory(directory)]
    if connect:
        found += asyncio.run(_of_registry(connect, entries))
    show(
        session.output,
        headers=("KIND", "PATH", "OPEN"),
        rows=[tuple(one) for one in found],
        document=[{"kind": one.kind, "path": one.path, "open": one.words} for one in found],
        empty="nothing is open to others",
    )
    return ExitCode.DEGRADED if found else ExitCode.OK


def _of_directory(directory: str) -> list[Exposed]:
    """Raises OSError."""
    found = []
    words = exposure(directory)
    if words:
        found.append(Exposed("directory", directory, f"other users of this machine may {words}"))
    with os.scandir(directory) as listing:
        for entry in sorted(listing, key=lambda one: one.name):
            if entry.is_symlink():
                found.append(Exposed("link", entry.path, f"points to {Path(entry.path).readlink()}"))
            elif entry.name.startswith(REGISTRY_FILE):
                mode = entry.stat().st_mode & 0o777
                if words and mode & ~file_mode(entry.path):
                    found.append(Exposed("file", entry.path, f"has the mode {mode:04o}"))
    return found


async def _of_registry(connect: str, entries: Mapping[str, str]) -> list[Exposed]:
    """Raises SettingError, StoreError."""
    # The client of ZooKeeper is the most that this verb loads, and --data needs none.
    from odradek.metadata.registry.zookeeper_store import ZookeeperStore

    settings = ZookeeperSettings({**entries, "zookeeper.connect": connect.removeprefix("zookeeper:")})
    store = await ZookeeperStore.open(settings, makes_chroot=False)
    try:
        if not await store.exists("/"):
            raise NoNode(f"ZooKeeper has no node at {connect}; is the chroot right?")
        found = [
            Exposed(
                "node",
                one.path,
                f"belongs to {', '.join(one.entries) or 'another user'}"
                if one.is_foreign
                else ", ".join(one.entries),
            )
            async for one in store.open_nodes(paths.BRANCHES, with_children=True)
        ]
        root = await store.open_root()
        return [*([] if root is None else [Exposed("node", "/", ", ".join(root.entries))]), *found]
    finally:
        await store.close()
