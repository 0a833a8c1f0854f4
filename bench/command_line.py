"""The command line beside kcat: the same file to the same broker and back, each as a whole process.

A file of lines is written with `odradek produce --file` and `kcat -P -l`. It is then read from the beginning into a
file, which has to equal the one that was sent. One is asked after the other, and the next round begins with the other;
the first round is discarded. Topics have one partition, so that order can be compared. The files lie in memory, as the
logs do.
"""

from __future__ import annotations

import filecmp
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from random import Random

from bench.peers import Peer, fresh_topic, ours, storage
from bench.questions import COMMAND_LINE_QUESTIONS, Answers
from bench.rounds import say

KEYS = 10_000
SEPARATOR = ":"
_COMMAND_SECONDS_MAX = 600
_DISTINCT_LINES = 1000
_LETTERS = b"abcdefghijklmnopqrstuvwxyz0123456789"


@dataclass(frozen=True, slots=True)
class LineSizes:
    """The number of lines of each kind that are sent in a round."""

    lines_100: int
    lines_1k: int


FULL = LineSizes(lines_100=1_000_000, lines_1k=100_000)
QUICK = LineSizes(lines_100=200_000, lines_1k=50_000)
TINY = LineSizes(lines_100=2_000, lines_1k=200)


def compare_command_lines(*, rounds: int, sizes: LineSizes, disk: str | None) -> Answers:
    """Ask everything `rounds` times after a discarded round; values are seconds."""
    if shutil.which("kcat") is None:
        raise SystemExit("kcat is not installed; it is what the command line is compared with")
    answers = Answers(COMMAND_LINE_QUESTIONS, other_name="kcat")
    with storage(disk) as folder:
        small, large, keyed = folder / "100B", folder / "1KB", folder / "keys"
        _write_lines(small, lines=sizes.lines_100, line_bytes=100, has_keys=False)
        _write_lines(large, lines=sizes.lines_1k, line_bytes=1000, has_keys=False)
        _write_lines(keyed, lines=sizes.lines_100, line_bytes=100, has_keys=True)
        broker = ours(folder)
        broker.start()
        try:
            for number in range(rounds + 1):
                kept = answers if number else Answers(COMMAND_LINE_QUESTIONS, other_name="kcat")
                say(f"round {number} of {rounds}{'' if number else ' (discarded)'}")
                tools = ("odradek", "kcat") if number % 2 else ("kcat", "odradek")
                for file, what in ((small, "lines of 100 B"), (large, "lines of 1 KB")):
                    for tool in tools:
                        sent, received = _there_and_back(broker, tool, file)
                        kept.add(f"produce --file, {what}", tool, sent)
                        kept.add(f"consume, {what}", tool, received)
                for tool in tools:
                    with fresh_topic(broker, 6) as topic:
                        kept.add(
                            "produce --file, keys and 100 B",
                            tool,
                            _seconds(_produce(broker, tool, topic, keyed)),
                        )
        finally:
            broker.close()
    return answers


def _there_and_back(broker: Peer, tool: str, file: Path) -> tuple[float, float]:
    """Seconds to write the file's lines, and to read them again. Fails when what comes back is not the file."""
    back = file.with_suffix(".back")
    with fresh_topic(broker, 1) as topic:
        sent = _seconds(_produce(broker, tool, topic, file))
        received = _seconds(_consume(broker, tool, topic), output=back)
    assert filecmp.cmp(file, back, shallow=False), f"{tool} did not return {file.name} as it was"
    back.unlink()
    return sent, received


def _produce(broker: Peer, tool: str, topic: str, file: Path) -> list[str]:
    keys = ["-K", SEPARATOR] if file.name == "keys" else []
    if tool == "kcat":
        return ["kcat", "-P", "-b", broker.bootstrap, "-t", topic, *keys, "-l", str(file)]
    return [*_odradek(), "produce", topic, "-b", broker.bootstrap, *keys, "--file", str(file)]


def _consume(broker: Peer, tool: str, topic: str) -> list[str]:
    if tool == "kcat":
        return ["kcat", "-C", "-b", broker.bootstrap, "-t", topic, "-o", "beginning", "-e", "-q"]
    return [*_odradek(), "consume", topic, "-b", broker.bootstrap, "--from-beginning"]


def _odradek() -> list[str]:
    return [sys.executable, "-m", "odradek"]


def _seconds(command: list[str], *, output: Path | None = None) -> float:
    """The seconds that a command takes from its start to its end; its output goes to a file."""
    with (output or Path(os.devnull)).open("wb") as out:
        began = time.perf_counter()
        subprocess.run(
            command, stdout=out, stderr=subprocess.DEVNULL, check=True, timeout=_COMMAND_SECONDS_MAX
        )
        return time.perf_counter() - began


def _write_lines(file: Path, *, lines: int, line_bytes: int, has_keys: bool) -> None:
    """Lines of letters and digits, the same in each run."""
    random = Random(line_bytes)
    distinct = [bytes(random.choices(_LETTERS, k=line_bytes)) for _ in range(_DISTINCT_LINES)]
    with file.open("wb") as out:
        for number in range(lines):
            if has_keys:
                out.write(b"key-%d%s" % (number % KEYS, SEPARATOR.encode()))
            out.write(distinct[number % _DISTINCT_LINES] + b"\n")
