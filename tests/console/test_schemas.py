"""Records that a schema registry explains: shown as JSON, and what cannot be decoded with an error beside its hex."""

from __future__ import annotations

import json
import struct
from collections.abc import Awaitable, Callable

import pytest

from odradek.client.consumer.blocks import ConsumerRecord
from odradek.client.schemas.registry import SchemaRegistry
from odradek.console.showing import RecordShowing
from odradek.foundation.console_limits import (
    CONSOLE_DECODED_BYTES_MAX,
    CONSOLE_SCHEMA_MS_MAX,
    CONSOLE_SCHEMAS_READ_MAX,
)
from tests.console.viewer import Viewer, run
from tests.support.broker_process import free_port
from tests.support.served_registry import ORDER, RegistryThread, ServedRegistry, avro, framed
from tests.support.stories import told_by

pytestmark = pytest.mark.integration

PROTO = 'syntax = "proto3"; message Order { int64 id = 1; string drink = 2; }'
TEA = {"id": 7, "drink": "tea"}
# Avro writes the length of the text as 3, and one letter follows.
BROKEN = framed(1, b"\x0e\x06t")

Story = Callable[[Viewer, ServedRegistry], Awaitable[None]]


def run_with_registry(bootstrap: str, story: Story) -> None:
    """A console with a registry that has an order in Avro (1) and in Protobuf (2)."""
    with RegistryThread() as thread:
        registry = thread.registry
        registry.add(1, ORDER)
        registry.add(2, PROTO, "PROTOBUF")
        showing = RecordShowing(SchemaRegistry(registry.url, timeout_ms=CONSOLE_SCHEMA_MS_MAX))
        run(bootstrap, lambda viewer: story(viewer, registry), showing=showing)


with_registry = told_by(run_with_registry, gives=2, asks=("bootstrap",))


@with_registry
async def test_avro_and_protobuf_are_shown_as_json(
    viewer: Viewer, registry: ServedRegistry, unique: str
) -> None:
    await viewer.make_topic(unique)
    await viewer.produce(unique, framed(1, avro(TEA)), key=framed(1, avro({"id": 1, "drink": ""})))
    await viewer.produce(unique, framed(2, b"\0\x08\x07\x12\x03tea"), b'{"plain": 1}', b"text")
    first, second, plain, text = (await viewer.get("records", topic=unique))["records"]
    assert json.loads(first["value"]["text"]) == TEA and json.loads(first["key"]["text"])["id"] == 1
    assert (first["value"]["form"], first["value"]["schema_id"]) == ("json", 1)
    assert first["value"]["size_bytes"] == len(framed(1, avro(TEA)))
    assert json.loads(second["value"]["text"]) == {"id": "7", "drink": "tea"}
    assert second["value"]["schema_id"] == 2
    assert plain["value"]["text"] == '{\n  "plain": 1\n}' and "schema_id" not in plain["value"]
    assert text["value"]["text"] == "text" and "error" not in text["value"]
    assert sorted(registry.asked) == ["/schemas/ids/1", "/schemas/ids/2"]

    bytes_alone = (await viewer.get("records", topic=unique, form="hex"))["records"][0]["value"]
    assert bytes_alone["text"].startswith("00000000  00 00 00 00 01 0e 06 74 65 61")
    whole = await viewer.get("record", topic=unique, partition=0, offset=0)
    assert json.loads(whole["value"]["text"]) == TEA
    # A search looks at the bytes, and shows what it finds by its schema.
    events = await viewer.events("search", topic=unique, text="TEA")
    found = [document["value"]["schema_id"] for name, document in events if name == "match"]
    assert found == [1, 2]


@with_registry
async def test_a_broken_record_has_an_error_and_its_hex(
    viewer: Viewer, registry: ServedRegistry, unique: str
) -> None:
    await viewer.make_topic(unique)
    await viewer.produce(unique, BROKEN, framed(9, b"abc"), framed(1, avro(TEA) + b"rest"))
    await viewer.produce(unique, framed(1, avro(TEA)))
    records = (await viewer.get("records", topic=unique))["records"]
    broken, unknown, longer, right = [one["value"] for one in records]
    assert broken["form"] == "hex" and "74" in broken["text"]
    assert broken["error"].startswith("it does not follow its schema 1: ")
    assert unknown["form"] == "hex" and "schema 9 is not in the registry" in unknown["error"]
    assert "4 bytes are left over" in longer["error"]
    assert json.loads(right["text"]) == TEA and "error" not in right


@with_registry
async def test_a_value_beyond_the_bound_is_not_decoded(viewer: Viewer, registry: ServedRegistry) -> None:
    long = {"id": 1, "drink": "x" * CONSOLE_DECODED_BYTES_MAX}
    record = ConsumerRecord("t", 0, 0, 0, 0, None, framed(1, avro(long)), (), 0)
    (shown,) = await viewer.cluster.showing.show([record])
    value = shown["value"]
    assert isinstance(value, dict) and value["form"] == "hex" and value["is_shortened"]
    assert value["error"] == f"it is larger than the {CONSOLE_DECODED_BYTES_MAX} bytes that are decoded"


@with_registry
async def test_a_tail_decodes_what_arrives(viewer: Viewer, registry: ServedRegistry, unique: str) -> None:
    await viewer.make_topic(unique)
    async with viewer.listen("tail", topic=unique) as events:
        await anext(events)
        await viewer.produce(unique, BROKEN, framed(1, avro(TEA)))
        values = []
        async for name, document in events:
            if name == "records":
                values += [one["value"] for one in document["records"]]
            if len(values) == 2:
                break
    assert values[0]["error"] and json.loads(values[1]["text"]) == TEA


@with_registry
async def test_numbers_that_begin_with_zeros_ask_for_no_schema(
    viewer: Viewer, registry: ServedRegistry, unique: str
) -> None:
    await viewer.make_topic(unique)
    await viewer.produce(unique, struct.pack(">q", 70_000), key=struct.pack(">i", 3))
    (record,) = (await viewer.get("records", topic=unique))["records"]
    assert record["value"]["form"] == record["key"]["form"] == "hex"
    assert "error" not in record["value"] and registry.asked == []


@with_registry
async def test_bytes_that_name_many_schemas_ask_for_few(
    viewer: Viewer, registry: ServedRegistry, unique: str
) -> None:
    await viewer.make_topic(unique)
    await viewer.produce(unique, *(framed(number + 100, b"x") for number in range(150)))
    records = (await viewer.get("records", topic=unique, count=150))["records"]
    assert len(records) == 150 and all(one["value"]["error"] for one in records)
    assert len(registry.asked) == CONSOLE_SCHEMAS_READ_MAX


def test_a_registry_that_is_gone_leaves_the_page(bootstrap: str, unique: str) -> None:
    url = f"http://127.0.0.1:{free_port()}"

    async def story(viewer: Viewer) -> None:
        await viewer.make_topic(unique)
        await viewer.produce(unique, framed(1, avro(TEA)), b"text")
        decoded, text = (await viewer.get("records", topic=unique))["records"]
        assert decoded["value"]["form"] == "hex" and url in decoded["value"]["error"]
        assert text["value"]["text"] == "text"

    run(bootstrap, story, showing=RecordShowing(SchemaRegistry(url, timeout_ms=200)))
