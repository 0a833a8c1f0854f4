"""Ctrl-C once and twice, in a process of its own."""

import subprocess
import sys
from pathlib import Path

import odradek

PROGRAM = """
import asyncio, os, signal
from odradek.cli.shared import interrupts

interrupts.SAME_PRESS_SECONDS = {same_press_seconds}

def press():
    os.kill(os.getpid(), signal.SIGINT)

async def main():
    asyncio.get_running_loop().call_soon(press)
    try:
        await asyncio.Event().wait()
    finally:
        press()
        for _ in range(3):
            await asyncio.sleep(0)
        print("in order", flush=True)

try:
    interrupts.run(main())
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def outcome(*, same_press_seconds: float) -> tuple[int, list[str]]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(same_press_seconds=same_press_seconds)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={"PYTHONPATH": str(Path(odradek.__file__).parents[1])},
    )
    assert done.stderr == ""
    return done.returncode, done.stdout.split("\n")[:-1]


def test_one_press_that_arrives_twice_ends_the_work_in_order() -> None:
    assert outcome(same_press_seconds=60) == (0, ["in order", "interrupted"])


def test_a_second_press_ends_it_at_once() -> None:
    assert outcome(same_press_seconds=-1) == (130, [])
