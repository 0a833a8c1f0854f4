"""Cells of a notebook: `await` at the top level for the asyncio form, and the synchronous form while that loop runs.

A process runs IPython's shell as a kernel of Jupyter does, each cell on one loop. The page's cells are the first.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.support.broker_process import CHECKOUT
from tests.support.peers import skip_or_fail

pytestmark = [pytest.mark.integration, pytest.mark.thorough]

KERNEL: Final = """
import asyncio, sys
from IPython.core.interactiveshell import InteractiveShell

async def main():
    shell = InteractiveShell()
    shell.history_manager.enabled = False
    for cell in sys.stdin.read().split("\\n# next cell\\n"):
        result = await shell.run_cell_async(cell, transformed_cell=shell.transform_cell(cell))
        result.raise_error()

asyncio.run(main())
"""

OF_ASYNCIO: Final = [
    "from odradek import Consumer, Producer",
    "async with Producer(client) as producer:\n    await producer.send_and_wait(TOPIC, b'tea')",
    """async with Consumer(client, TOPIC, auto_offset_reset="earliest") as consumer:
    print((await consumer.poll(timeout_ms=30_000))[0].value)""",
    "consumer = Consumer(client, TOPIC, auto_offset_reset='earliest')\nawait consumer.start()",
    "print((await consumer.poll(timeout_ms=30_000))[0].value)",
    "await consumer.close()\nawait client.close()",
]
SYNCHRONOUS: Final = [
    "blocking = sync.Client(BOOTSTRAP)",
    "with sync.Producer(blocking) as producer:\n    producer.send(TOPIC, b'milk')",
    """with sync.Consumer(blocking, TOPIC, auto_offset_reset="earliest") as consumer:
    for record in consumer:
        print(record.value)
        if record.value == b"milk":
            break""",
    "blocking.close()",
]


def page_cells() -> list[str]:
    """The cells that the page shows."""
    section = (CHECKOUT / "docs" / "python-client.md").read_text().partition("## In Jupyter")[2]
    block = section.partition("```python\n")[2].partition("```")[0]
    return block.strip().split("\n\n")


def test_cells_use_both_forms(bootstrap: str, unique: str, tmp_path: Path) -> None:
    if importlib.util.find_spec("IPython") is None:
        skip_or_fail("IPython is missing: pip install ipython")
    shown = [cell.replace("127.0.0.1:9092", bootstrap) for cell in page_cells()]
    assert any("await " in cell for cell in shown) and any("sync.Client" in cell for cell in shown)
    names = f"TOPIC, BOOTSTRAP = {unique!r}, {bootstrap!r}"
    cells = [
        names,
        *shown,
        "await Admin(client).topics.create(TOPIC, partitions=1);",
        *OF_ASYNCIO,
        *SYNCHRONOUS,
    ]
    done = subprocess.run(
        [sys.executable, "-W", "error::ResourceWarning", "-c", KERNEL],
        input="\n# next cell\n".join(cells),
        env={
            **os.environ,
            "HOME": str(tmp_path),
            "IPYTHONDIR": str(tmp_path),
            "PYTHONPATH": str(CHECKOUT / "broker"),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    printed = [line for line in done.stdout.splitlines() if line.startswith("b'")]
    assert printed == ["b'tea'", "b'tea'", "b'tea'", "b'milk'"], done.stdout
    assert done.stderr == ""
