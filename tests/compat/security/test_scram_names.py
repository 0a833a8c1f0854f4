"""First messages of SCRAM, read by Apache Kafka 4.1.1's own parser and by ours: the same names are taken."""

from __future__ import annotations

import base64
import shutil
import subprocess
from pathlib import Path

import pytest

from odradek.security.authentication.exchange import escape_name
from odradek.security.authentication.scram import ScramMessageError, parse_client_first
from tests.support.java import JavaUnavailableError, java_environment, kafka_classpath
from tests.support.peers import skip_or_fail

pytestmark = [pytest.mark.java, pytest.mark.thorough]

JAVA_SECONDS_MAX = 120
NAMES = (
    "alice",
    "a,b=c",
    "tab\tand\x01\x7f",
    "two words",
    "André",
    "Andre\u0301",
    "\uff41lice",
    "al\xadice",
    "名前",
    "a\u0660",
    "😀",
    "",
    "a\0b",
)
MESSAGES = [
    *(f"n,,n={escape_name(name)},r=abc".encode() for name in NAMES),
    *(f"n,a={escape_name(name)},n=alice,r=abc".encode() for name in NAMES),
    *(f"n,,n=alice,r=abc,key={name}".encode() for name in NAMES),
    "n,,n=alice,r=ab\u00e9".encode(),
    b"n,,n=b=ob,r=abc",
    b"n,,n=b=2cob,r=abc",
    b"n,,n=\xff,r=abc",
    b"n,a=,n=alice,r=abc",
    b"y,,n=alice,r=abc",
    b"n,,n=alice,r=abc,tokenauth=true,more=x=y",
    b"n,,n=alice,r=abc,key",
]


def _our_name(message: bytes) -> str | None:
    try:
        return parse_client_first(message).user
    except ScramMessageError:
        return None


def test_the_same_names_are_taken() -> None:
    try:
        classpath = kafka_classpath()
    except JavaUnavailableError as error:
        skip_or_fail(str(error))
    java = shutil.which("java")
    if java is None or shutil.which("javac") is None:
        skip_or_fail("there is no JDK, which compiles the program that asks Kafka's parser")
    program = str(Path(__file__).with_name("ScramNames.java"))
    done = subprocess.run(
        [str(java), "-XX:+UseSerialGC", "-cp", classpath, program],
        input="".join(base64.b64encode(message).decode() + "\n" for message in MESSAGES),
        capture_output=True,
        text=True,
        timeout=JAVA_SECONDS_MAX,
        env=java_environment(),
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    kafkas = [None if word == "-" else base64.b64decode(word).decode() for word in done.stdout.split()]
    assert dict(zip(MESSAGES, kafkas, strict=True)) == {message: _our_name(message) for message in MESSAGES}
    # A name outside ASCII is among those that Kafka refuses.
    assert kafkas[NAMES.index("André")] is None
    assert kafkas[NAMES.index("a,b=c")] == "a,b=c"
