"""One request goes through few files, so that a reader can follow it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

from tests.support.files_entered import traced_node

FILES_MAX: Final = {"Produce": 13, "Produce, idempotent": 14, "Fetch": 14, "JoinGroup": 44, "SyncGroup": 42}


def test_a_request_enters_few_files(tmp_path: Path) -> None:
    """Fails above a bound, and lists the files of each request; `pytest -s` shows them too."""
    entered = asyncio.run(_entered(tmp_path))
    report = "\n\n".join(
        f"{name} enters {len(files)} files:\n" + "\n".join(files) for name, files in entered.items()
    )
    print(report)
    for name, files in entered.items():
        assert 0 < len(files) <= FILES_MAX[name], report


async def _entered(directory: Path) -> dict[str, list[str]]:
    async with traced_node(directory) as node:
        produce, idempotent = await node.produce(), await node.produce(is_idempotent=True)
        join_group, sync_group = await node.join_group()
        return {
            "Produce": produce,
            "Produce, idempotent": idempotent,
            "Fetch": await node.fetch(),
            "JoinGroup": join_group,
            "SyncGroup": sync_group,
        }
