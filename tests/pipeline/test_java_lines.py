"""What a JVM prints on standard error at its start: all but the lines that every start has."""

from __future__ import annotations

import os

import pytest

from odradek_pipeline.connection.java import copy_lines

NOISE = b"""WARNING: Using incubator modules: jdk.incubator.vector
Using Spark's default log4j profile: org/apache/spark/log4j2-defaults.properties
26/11/28 12:00:00 WARN Utils: Your hostname, box, resolves to a loopback address: 127.0.1.1; using 10.0.0.7 instead
26/11/28 12:00:00 WARN Utils: Set SPARK_LOCAL_IP if you need to bind to another address
Setting default log level to "WARN".
To adjust logging level use sc.setLogLevel(newLevel). For SparkR, use setLogLevel(newLevel).
26/11/28 12:00:01 WARN NativeCodeLoader: Unable to load native-hadoop library for your platform... using builtin
"""


def copied(*parts: bytes) -> bytes:
    source, writer = os.pipe()
    reader, target = os.pipe()
    for part in parts:
        os.write(writer, part)
    os.close(writer)
    copy_lines(source, target)
    with open(reader, "rb") as read:
        return read.read()


def test_the_noise_of_every_start_is_left_out() -> None:
    assert copied(NOISE) == b""


@pytest.mark.parametrize("part", [b"26/11/28 WARN Task: lost\n", b"two\nlines\n", b"no end of line", b"\n\n"])
def test_all_other_lines_are_copied(part: bytes) -> None:
    assert copied(b"before\n", part) == b"before\n" + part
    assert copied(NOISE, part) == part
