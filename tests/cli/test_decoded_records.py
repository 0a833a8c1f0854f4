"""`odradek consume --schema-registry`: what is printed decoded, what is not, and what stderr says of it."""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from collections.abc import Iterator, Sequence

import pytest
from google.protobuf import descriptor_pb2

from odradek import Client, Producer
from odradek.cli.exit_codes import ExitCode
from odradek.foundation.client_limits import DECODE_FAILURES_SHOWN_MAX
from tests.cli.conftest import Shell
from tests.support.served_registry import ORDER, RegistryThread, ServedRegistry, avro, framed

pytestmark = pytest.mark.integration

# Its bytes are UTF-8, so that they are the same text where they are not decoded.
TEA = framed(1, avro({"id": 7, "drink": "tea"}))
DECODED = '{"id": 7, "drink": "tea"}'


@pytest.fixture
def registry() -> Iterator[ServedRegistry]:
    with RegistryThread() as thread:
        thread.registry.add(1, ORDER)
        yield thread.registry


def fill(bootstrap: str, topic: str, *records: tuple[bytes | None, bytes | None] | bytes | None) -> None:
    """Values, or keys with values, in one batch."""

    async def send() -> None:
        pairs = [one if isinstance(one, tuple) else (None, one) for one in records]
        async with Client(bootstrap) as client, Producer(client) as producer:
            await producer.send_many(topic, [value for _, value in pairs], keys=[key for key, _ in pairs])

    asyncio.run(send())


@pytest.fixture
def topic(shell: Shell, unique: str) -> str:
    shell.run("topics", "create", unique, "-p", "1")
    return unique


def consume(shell: Shell, topic: str, *options: str, code: int = 0) -> list[str]:
    return shell.run("consume", topic, "--from-beginning", *options, code=code).splitlines()


def complaints(shell: Shell) -> Sequence[str]:
    return shell.error.splitlines()


def test_values_with_a_header_are_json_and_others_stay(
    shell: Shell, bootstrap: str, topic: str, registry: ServedRegistry
) -> None:
    fill(bootstrap, topic, TEA, b"plain", None, TEA, b"\0\0")
    option = ("--schema-registry", registry.url)
    assert consume(shell, topic, *option, "--null-value", "NIL") == [DECODED, "plain", "NIL", DECODED, "\0\0"]
    assert shell.error == ""
    documents = [json.loads(line) for line in consume(shell, topic, *option, "--output", "json")]
    order = {"id": 7, "drink": "tea"}
    assert [one["value"] for one in documents] == [order, "plain", None, order, "\0\0"]
    assert consume(shell, topic, *option, "-f", "{offset} {value:.9}") == [
        '0 {"id": 7,',
        "1 plain",
        "2 ",
        '3 {"id": 7,',
        "4 \0\0",
    ]
    assert registry.asked.count("/schemas/ids/1") == 3, "once for each command"


def test_protobuf_compiled_or_as_text_is_its_own_json(
    shell: Shell, bootstrap: str, topic: str, registry: ServedRegistry
) -> None:
    file = descriptor_pb2.FileDescriptorProto(package="shop", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    order = file.message_type.add(name="Order")
    order.field.add(name="order_id", number=1, type=3, label=1)
    order.field.add(name="at", number=2, type=11, label=1, type_name=".google.protobuf.Timestamp")
    order.field.add(name="note", number=3, type=9, label=1)
    registry.add(4, base64.b64encode(file.SerializeToString()).decode(), "PROTOBUF")
    text = """syntax = "proto3"; package shop; import "google/protobuf/timestamp.proto";
    message Order { int64 order_id = 1; google.protobuf.Timestamp at = 2; string note = 3; }"""
    registry.add(5, text, "PROTOBUF")
    data = b"\0\x08\x05\x12\x02\x08\x09"
    fill(bootstrap, topic, framed(4, data), framed(5, data))
    assert (
        consume(shell, topic, "--schema-registry", registry.url)
        == ['{"orderId": "5", "at": "1970-01-01T00:00:09Z", "note": ""}'] * 2
    )


def test_what_cannot_be_decoded_is_said_and_printed_in_its_place(
    shell: Shell, bootstrap: str, topic: str, registry: ServedRegistry
) -> None:
    """Schema 2 is missing, and two values of schema 1 are damaged."""
    registry.add(3, {"type": "object"}, "JSON")
    values = [TEA, TEA[:-1], framed(3, b'{"n": 1}'), framed(2, b"two"), framed(3, b"{"), TEA]
    fill(bootstrap, topic, *values)
    lines = consume(shell, topic, "--schema-registry", registry.url, "--offsets", code=ExitCode.FAILED)
    assert lines == [
        f"0:0\t{DECODED}",
        f"0:1\t{TEA[:-1].decode()}",
        '0:2\t{"n": 1}',
        f"0:3\t{framed(2, b'two').decode()}",
        f"0:4\t{framed(3, b'{').decode()}",
        f"0:5\t{DECODED}",
    ]
    first, missing, cut, total = complaints(shell)
    about = "odradek: the value of the record at offset {} of " + f"{topic}-0 "
    assert first.startswith(about.format(1) + "does not follow its schema 1: ")
    assert missing.startswith(
        about.format(3) + f"is not decoded: schema 2 is not in the registry at {registry.url}"
    )
    assert cut.startswith(about.format(4) + "does not follow its schema 3: JSONDecodeError")
    assert total == "odradek: not decoded, and printed as written: 3 values"
    raw = [json.loads(line) for line in consume(shell, topic, "--output", "json")]
    found = [
        json.loads(line)
        for line in consume(
            shell, topic, "--output", "json", "--schema-registry", registry.url, code=ExitCode.FAILED
        )
    ]
    assert [one["offset"] for one in found] == [0, 1, 2, 3, 4, 5]
    assert [found[number] for number in (1, 3, 4)] == [raw[number] for number in (1, 3, 4)]


def test_messages_have_a_bound_and_a_count(
    shell: Shell, bootstrap: str, topic: str, registry: ServedRegistry
) -> None:
    fill(bootstrap, topic, *[framed(2, b"")] * (DECODE_FAILURES_SHOWN_MAX + 3))
    lines = consume(shell, topic, "--schema-registry", registry.url, code=ExitCode.FAILED)
    assert len(lines) == DECODE_FAILURES_SHOWN_MAX + 3
    assert len(complaints(shell)) == DECODE_FAILURES_SHOWN_MAX + 1
    assert complaints(shell)[-1] == (
        f"odradek: not decoded, and printed as written: {DECODE_FAILURES_SHOWN_MAX + 3} values, "
        "3 of them without a message"
    )


def test_keys_are_decoded_where_they_are_named(
    shell: Shell, bootstrap: str, topic: str, registry: ServedRegistry
) -> None:
    registry.add(9, {"type": "string"}, "JSON")
    fill(bootstrap, topic, (framed(9, b'"k"'), TEA))
    option = ("--schema-registry", registry.url, "--output", "json")
    (line,) = consume(shell, topic, *option)
    assert (json.loads(line)["key"], registry.asked) == (framed(9, b'"k"').decode(), ["/schemas/ids/1"])
    (line,) = consume(shell, topic, *option, "--schema-parts", "key,value")
    assert (json.loads(line)["key"], json.loads(line)["value"]["id"]) == ("k", 7)
    (line,) = consume(shell, topic, *option, "--schema-parts", "key")
    assert (json.loads(line)["key"], json.loads(line)["value"]) == ("k", TEA.decode())


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (None, "schema 8 was not read within 1 s: http://127.0.0.1:1: "),
        ((503, ""), "schema 8 was not read within 1 s: {url} answered 503. "),
        ((401, ""), "schema 8 may not be read ({url} answered 401): "),
        ((200, "<html>"), "{url} answers as no schema registry does"),
    ],
)
def test_a_registry_that_fails_ends_the_output_before_its_first_record(
    shell: Shell,
    bootstrap: str,
    topic: str,
    registry: ServedRegistry,
    answer: tuple[int, str] | None,
    words: str,
) -> None:
    is_waited_for = answer in (None, (503, ""))
    fill(bootstrap, topic, b"plain", b"plain" if is_waited_for else TEA, framed(8, b"x"), b"after")
    url = "http://127.0.0.1:1"
    if answer is not None:
        registry.answers["/schemas/ids/8"] = answer
        url = registry.url
    option = ("--schema-registry", url, *(("--timeout", "1") if is_waited_for else ()))
    lines = consume(shell, topic, *option, code=ExitCode.CONNECTION)
    assert lines == ["plain", "plain" if is_waited_for else DECODED]
    (complaint,) = complaints(shell)
    assert complaint.startswith("odradek: " + words.format(url=registry.url))
    assert complaint.endswith(
        f"The output ends before offset 2 of partition {topic}-0. Start the registry, or correct its address "
        "(--schema-registry) or its login (basic.auth.user.info); --schema-registry '' prints the bytes"
    )


def test_a_missing_library_ends_the_output_too(
    shell: Shell, bootstrap: str, topic: str, registry: ServedRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(bootstrap, topic, b"plain", TEA)
    monkeypatch.setitem(sys.modules, "fastavro", None)
    assert consume(shell, topic, "--schema-registry", registry.url, code=ExitCode.FAILED) == ["plain"]
    (complaint,) = complaints(shell)
    assert complaint.startswith("odradek: values in Avro need the package fastavro: pip install fastavro")
    assert complaint.endswith(f"partition {topic}-0. Install it; --schema-registry '' prints the bytes")


def test_a_group_reads_again_what_a_failing_registry_kept_back(
    shell: Shell, bootstrap: str, topic: str, registry: ServedRegistry
) -> None:
    fill(bootstrap, topic, framed(8, b"{}"))
    option = ("--group", topic, "--exit-at-end", "--schema-registry", registry.url)
    registry.answers["/schemas/ids/8"] = (401, "")
    assert consume(shell, topic, *option, code=ExitCode.CONNECTION) == []
    registry.add(8, {"type": "object"}, "JSON")
    assert consume(shell, topic, *option) == ["{}"]


def test_a_refusal_of_one_schema_is_no_failure_of_the_registry(
    shell: Shell, bootstrap: str, topic: str, registry: ServedRegistry
) -> None:
    fill(bootstrap, topic, framed(8, b"x"), TEA)
    for status in (400, 403):
        registry.answers["/schemas/ids/8"] = (status, "")
        lines = consume(shell, topic, "--schema-registry", registry.url, code=ExitCode.FAILED)
        assert lines == [framed(8, b"x").decode(), DECODED]
        assert f"answered {status}" in shell.error


def test_the_registry_and_its_login_come_from_properties_and_environment(
    shell: Shell, bootstrap: str, topic: str, registry: ServedRegistry
) -> None:
    fill(bootstrap, topic, TEA)
    login = ("basic.auth.user.info=anna:se:cret", "basic.auth.credentials.source=USER_INFO")
    shell.run("profile", "create", "shop", "-b", bootstrap, "--set", f"schema.registry.url={registry.url}")
    shell.run("profile", "set", "--profile", "shop", *login)
    assert consume(shell, topic, "--profile", "shop") == [DECODED]
    assert registry.logins == ["Basic " + base64.b64encode(b"anna:se:cret").decode()]
    shown = shell.run("profile", "show", "--profile", "shop")
    assert "[hidden]" in shown
    assert "cret" not in shown + shell.run("profile", "show", "--profile", "shop", "--output", "json")
    assert consume(shell, topic, "--profile", "shop", "--schema-registry", "") == [TEA.decode()]
    shell.environment["ODRADEK_SCHEMA_REGISTRY"] = "http://x:secret@127.0.0.1"
    shown = shell.run("profile", "show", "--profile", "shop")
    assert "http://[hidden]@127.0.0.1" in shown
    assert "$ODRADEK_SCHEMA_REGISTRY" in shown
    shell.environment["ODRADEK_SCHEMA_REGISTRY"] = "nowhere"
    consume(shell, topic, code=ExitCode.USAGE)
    assert "$ODRADEK_SCHEMA_REGISTRY: the text is no address of a schema registry" in shell.error
    consume(shell, topic, "--schema-registry", "ftp://here", code=ExitCode.USAGE)
    assert "--schema-registry: here is no address of a schema registry" in shell.error
