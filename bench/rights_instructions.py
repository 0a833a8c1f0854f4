"""How many instructions a Produce costs a broker without and with ACLs and quotas, as valgrind counts them.

What the kernel executes is not counted. Brokers are prepared at full speed, and started again under valgrind. The
window of quotas is an hour: a request is fifty times slower there, so each one would begin a window otherwise.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench.rights import CLIENTS, OFF, VARIANTS, Clients, prepare, settings_of
from tests.support.broker_process import Broker

# Code is specialized, and connections know their rights, before counting begins.
FIRST_TURNS: Final = 30
TURNS: Final = 15
_TOTAL: Final = re.compile(r"^(?:totals|summary): (\d+)", re.MULTILINE)


def instructions(variant: str) -> int:
    """Of one request."""
    with tempfile.TemporaryDirectory(prefix="odradek-instructions-") as folder:
        counts = Path(folder) / "counts"
        with _slow_broker(Path(folder) / "broker", variant, counts) as broker:
            clients = Clients(broker.port)
            for _ in range(FIRST_TURNS):
                clients.send()
            _control("--instr=on", broker)
            for _ in range(TURNS):
                clients.send()
            _control("--dump", broker)
            clients.close()
        (dumped,) = Path(folder).glob("counts*.1")
        total = _TOTAL.search(dumped.read_text())
        assert total is not None, f"valgrind wrote no total to {dumped}"
        return round(int(total[1]) / TURNS / CLIENTS)


@contextmanager
def _slow_broker(folder: Path, variant: str, counts: Path) -> Iterator[Broker]:
    """A broker with the variant's ACLs and quotas, under valgrind."""
    settings = {**settings_of(variant), "quota.window.size.seconds": "3600"}
    quick = Broker(folder, settings=settings)
    try:
        quick.start()
        asyncio.run(prepare(quick.bootstrap, variant))
    finally:
        quick.close()
    wrapper = ["valgrind", "--tool=callgrind", "-q", "--instr-atstart=no", f"--callgrind-out-file={counts}"]
    slow = Broker(folder, settings=settings, wrapper=wrapper)
    try:
        slow.start()
        yield slow
    finally:
        slow.close()


def _control(command: str, broker: Broker) -> None:
    subprocess.run(["callgrind_control", command, str(broker.pid)], check=True, capture_output=True)


def count_instructions() -> int:
    """Print a line for each variant. Returns 0."""
    without = 0
    for name in VARIANTS:
        found = instructions(name)
        if name == OFF:
            without = found
        print(f"{name:8} {found:9,} instructions a request {100 * (found / without - 1):+6.2f}%", flush=True)
    return 0
