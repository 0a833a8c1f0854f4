"""`odradek` as a call in this process, for tests in which the process is not the point: a tenth of its CPU time.

The command has file descriptors 0 to 2 to itself, each a pipe, and the environment that it is given. So it finds what a
process finds that a script starts. Left out: signals, terminals, and what happens when the interpreter ends.
"""

from __future__ import annotations

import io
import os
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, chdir, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from odradek.cli.main import run


class Ended(NamedTuple):
    """One command: its exit code, and the bytes that it printed."""

    code: int
    out: bytes
    error: bytes


def run_command(
    arguments: Sequence[str],
    *,
    environment: Mapping[str, str],
    input: bytes = b"",
    folder: Path | None = None,
) -> Ended:
    """Run one command to its end, in `folder` if there is one."""
    with ExitStack() as stack:
        stack.enter_context(_environment(environment))
        if folder is not None:
            stack.enter_context(chdir(folder))
        with _input(input), _output(1, "stdout") as out, _output(2, "stderr") as error:
            code = run(arguments)
    return Ended(code, bytes(out), bytes(error))


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextmanager
def _input(given: bytes) -> Iterator[None]:
    ours, theirs = os.pipe()

    def write() -> None:
        with suppress(BrokenPipeError), open(theirs, "wb") as pipe:
            pipe.write(given)

    writer = threading.Thread(target=write)
    writer.start()
    with _in_place_of(0, ours):
        stream = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)), encoding="utf-8")
        before, sys.stdin = sys.stdin, stream
        try:
            yield
        finally:
            sys.stdin = before
            stream.close()
    writer.join()


@contextmanager
def _output(descriptor: int, name: str) -> Iterator[bytearray]:
    """What is written to the descriptor, complete after the block."""
    ours, theirs = os.pipe()
    printed = bytearray()

    def read() -> None:
        with open(ours, "rb") as pipe:
            while block := pipe.read1(1 << 16):
                printed.extend(block)

    reader = threading.Thread(target=read)
    reader.start()
    with _in_place_of(descriptor, theirs):
        file = io.BufferedWriter(io.FileIO(descriptor, "w", closefd=False))
        stream = io.TextIOWrapper(file, encoding="utf-8", line_buffering=descriptor == 2)
        before = getattr(sys, name)
        setattr(sys, name, stream)
        try:
            yield printed
        finally:
            setattr(sys, name, before)
            stream.close()
    reader.join()


@contextmanager
def _in_place_of(descriptor: int, other: int) -> Iterator[None]:
    kept = os.dup(descriptor)
    os.dup2(other, descriptor)
    os.close(other)
    try:
        yield
    finally:
        os.dup2(kept, descriptor)
        os.close(kept)
