"""The JVM that PySpark starts for a session of its own: started without its noise, and ended with the command.

PySpark's own answer to Ctrl-C asks the JVM to cancel its jobs, on the connection that waits for the answer of a job. It
hangs there, and a second Ctrl-C leaves the JVM behind. Here a signal is an exception, and the session is stopped
on another connection. What then does not end is killed. Where spark-submit has started the JVM, that is its owner.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final

from pyspark import SparkContext
from pyspark.sql import SparkSession

from odradek_pipeline.errors import TerminatedError

# What every start prints, whatever the settings.
NOISE: Final = (
    b"WARNING: Using incubator modules:",
    b"Using Spark's default log4j profile:",
    b'Setting default log level to "',
    b"To adjust logging level use sc.setLogLevel",
    b"WARN NativeCodeLoader: Unable to load native-hadoop library",
    b"WARN Utils: Your hostname, ",
    b"WARN Utils: Set SPARK_LOCAL_IP if you need to bind to another address",
)
_STANDARD_ERROR: Final = 2
_READ_BYTES: Final = 65536
# A line longer than this is handed on in parts.
_LINE_BYTES_MAX: Final = 1 << 20
_STOP_SECONDS_MAX: Final = 10.0
_END_SECONDS_MAX: Final = 5.0


@contextmanager
def quiet_start() -> Iterator[None]:
    """The JVM that the block starts has its lines on standard error, all its life, but for the `NOISE`."""
    if SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ:
        yield
        return
    reader, writer = os.pipe()
    ours = os.dup(_STANDARD_ERROR)
    sys.stderr.flush()
    os.dup2(writer, _STANDARD_ERROR)
    os.close(writer)
    threading.Thread(target=copy_lines, args=(reader, ours), name="spark's lines", daemon=True).start()
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(ours, _STANDARD_ERROR)


def copy_lines(source: int, target: int) -> None:
    """Copy lines between descriptors until the end of `source`, but for the `NOISE`; both are closed then."""
    rest = b""
    try:
        while data := os.read(source, _READ_BYTES):
            *lines, rest = (rest + data).split(b"\n")
            if len(rest) > _LINE_BYTES_MAX:
                lines, rest = [*lines, rest], b""
            kept = b"".join(line + b"\n" for line in lines if not any(noise in line for noise in NOISE))
            os.write(target, kept)
        os.write(target, rest)
    except OSError:
        pass  # the reader has ended
    finally:
        os.close(source)
        os.close(target)


@contextmanager
def signals_after() -> Iterator[None]:
    """Put Ctrl-C and SIGTERM off to the end of the block: an interrupted start leaves a JVM of which no session
    is known. The second one is not put off.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    received: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        received.append(number)
        if len(received) > 1:
            raise KeyboardInterrupt

    for number in before:
        signal.signal(number, note)
    try:
        yield
    finally:
        # PySpark has put its own handler for Ctrl-C in place.
        for number, handler in before.items():
            signal.signal(number, handler)
    if received:
        raise KeyboardInterrupt if received[0] == signal.SIGINT else TerminatedError


def end_session(spark: SparkSession) -> None:
    """Stop a session whose work was cut off, and the JVM that PySpark has started for it."""
    # Each thread has a connection of its own. This one's may be in the middle of an answer.
    stopping = threading.Thread(target=_stop, args=(spark,), name="stop spark", daemon=True)
    stopping.start()
    stopping.join(_STOP_SECONDS_MAX)
    process = getattr(SparkContext._gateway, "proc", None)
    if process is None:
        return
    # The JVM ends with its standard input.
    with suppress(OSError):
        process.stdin.close()
    try:
        process.wait(_END_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _stop(spark: SparkSession) -> None:
    with suppress(Exception):  # the JVM may have ended by itself
        spark.stop()
