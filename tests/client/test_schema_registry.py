"""Records by a schema registry: what a consumer makes of them, and what it says where it cannot."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable
from decimal import Decimal
from typing import Any

import fastavro
import pytest
from google.protobuf import descriptor_pb2, timestamp_pb2

from odradek import Admin, Client, Consumer, Producer, SchemaRegistry, TopicPartition, sync
from odradek.client.consumer.blocks import ConsumerRecord
from odradek.client.consumer.decoded import RecordDecoding
from odradek.client.schemas import registry as registry_module
from odradek.client.schemas.rest import parse_address
from odradek.errors import InvalidRequest, SchemaUnavailable, UndecodableRecord
from tests.client.support import with_client
from tests.support.polling import eventually
from tests.support.served_registry import ORDER, RegistryThread, ServedRegistry, avro, framed, served


def with_registry(story: Callable[[ServedRegistry], Awaitable[None]]) -> Callable[[], None]:
    def test() -> None:
        async def main() -> None:
            async with served() as registry:
                await story(registry)

        asyncio.run(main())

    test.__name__, test.__doc__ = story.__name__, story.__doc__
    return test


def record_of(value: bytes | None, key: bytes | None = None, offset: int = 7) -> ConsumerRecord:
    return ConsumerRecord("orders", 0, offset, 0, 0, key, value, (), 0)


async def decoded(registry: ServedRegistry | SchemaRegistry, value: bytes | None, **more: Any) -> Any:
    found = (
        registry if isinstance(registry, SchemaRegistry) else SchemaRegistry(registry.url, timeout_ms=5_000)
    )
    [record] = await RecordDecoding(found, ("value",)).add_schemas([record_of(value, **more)])
    return record.decoded_value


@with_registry
async def test_avro_with_logical_types_and_references(registry: ServedRegistry) -> None:
    money = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
    outer = {
        "type": "record",
        "name": "Bill",
        "fields": [{"name": "order", "type": "Order"}, {"name": "sum", "type": "Money"}],
    }
    registry.add(1, ORDER)
    registry.add(
        2,
        outer,
        references=[
            {"name": "Order", "subject": "orders/value", "version": 3},
            {"name": "Money", "subject": "money", "version": 1},
        ],
    )
    wrapped = {"type": "record", "name": "Money", "fields": [{"name": "amount", "type": money}]}
    registry.answers["/subjects/orders/value/versions/3"] = (200, {"schema": json.dumps(ORDER), "id": 1})
    registry.answers["/subjects/money/versions/1"] = (
        200,
        {
            "schema": json.dumps(wrapped),
            "references": [{"name": "Order", "subject": "orders/value", "version": 3}],
        },
    )
    assert await decoded(registry, framed(1, avro({"id": 5, "drink": "tea"}))) == {"id": 5, "drink": "tea"}
    named: dict[str, Any] = {}
    for schema in (ORDER, wrapped):
        fastavro.parse_schema(schema, named)
    stream = io.BytesIO()
    bill = {"order": {"id": 5, "drink": "tea"}, "sum": {"amount": Decimal("2.50")}}
    fastavro.schemaless_writer(stream, fastavro.parse_schema(outer, named), bill)
    assert await decoded(registry, framed(2, stream.getvalue())) == bill
    assert registry.asked.count("/subjects/orders/value/versions/3") == 1


@with_registry
async def test_json_and_bytes_alone_and_a_tombstone(registry: ServedRegistry) -> None:
    registry.add(1, {"type": "object"}, "JSON")
    registry.add(2, '"bytes"')
    registry.add(3, {"type": "string"}, "AVRO")
    assert await decoded(registry, framed(1, b'{"a": [1, null]}')) == {"a": [1, None]}
    assert await decoded(registry, framed(2, b"\x00raw")) == b"\x00raw"
    assert await decoded(registry, framed(3, avro("tea", "string"))) == "tea"
    assert await decoded(registry, None) is None


@with_registry
async def test_a_type_within_itself_has_a_depth(registry: ServedRegistry) -> None:
    """Also where only a reference has it. Depth that the stack does not hold is an error of the record."""
    tree = {"type": "record", "name": "Tree", "fields": [{"name": "next", "type": ["null", "Tree"]}]}
    wood = {
        "type": "record",
        "name": "Wood",
        "fields": [{"name": "trees", "type": {"type": "map", "values": "Tree"}}],
    }
    registry.add(1, tree)
    registry.add(2, wood, references=[{"name": "Tree", "subject": "tree", "version": 1}])
    registry.answers["/subjects/tree/versions/1"] = (200, {"schema": json.dumps(tree)})
    assert await decoded(registry, framed(1, b"\2\2\0")) == {"next": {"next": {"next": None}}}
    assert await decoded(registry, framed(2, b"\2\2a\0\0")) == {"trees": {"a": {"next": None}}}
    for data in (framed(1, b"\2" * 200_000), framed(2, b"\2\2a" + b"\2" * 200_000)):
        with pytest.raises(UndecodableRecord, match="RecursionError"):
            await decoded(registry, data)


@with_registry
async def test_an_array_of_items_without_bytes_is_refused(registry: ServedRegistry) -> None:
    fields = [
        {"name": "nothing", "type": "null"},
        {"name": "zero", "type": {"type": "fixed", "name": "Z", "size": 0}},
    ]
    empty = {"type": "record", "name": "Empty", "fields": fields}
    pairs: Any = empty
    for number in range(60):
        both = [{"name": "left", "type": pairs}, {"name": "right", "type": pairs["name"]}]
        pairs = {"type": "record", "name": f"Pair{number}", "fields": both}
    for schema_id, items in enumerate(("null", {"type": "null"}, empty, pairs), 1):
        holder = [{"name": "all", "type": ["null", {"type": "array", "items": items}]}]
        registry.add(schema_id, {"type": "record", "name": "Holder", "fields": holder})
        value = b"\x02" + b"\xfe" * 8 + b"\x01\x00"  # a block of 2 ** 61 items and some
        with pytest.raises(SchemaUnavailable, match="items take no bytes"):
            await decoded(registry, framed(schema_id, value))
    registry.add(9, {"type": "array", "items": ["null", "long"]})
    assert await decoded(registry, framed(9, b"\x04\x00\x02\x0a\x00")) == [None, 5]


@with_registry
async def test_protobuf_finds_the_message_of_its_file(registry: ServedRegistry) -> None:
    other = descriptor_pb2.FileDescriptorProto(name="unknown", package="shop", syntax="proto3")
    other.message_type.add(name="Cup").field.add(name="size", number=1, type=5, label=1)
    file = descriptor_pb2.FileDescriptorProto(package="shop", syntax="proto3")
    file.dependency.extend(["cups/cup.proto", "google/protobuf/timestamp.proto"])
    order = file.message_type.add(name="Order")
    order.field.add(name="cup", number=1, type=11, label=1, type_name=".shop.Cup")
    order.field.add(name="at", number=2, type=11, label=1, type_name=".google.protobuf.Timestamp")
    second = file.message_type.add(name="Refund")
    second.field.add(name="id", number=1, type=3, label=1)
    second.nested_type.add(name="Reason").field.add(name="text", number=1, type=9, label=1)
    registry.add(
        4,
        base64.b64encode(file.SerializeToString()).decode(),
        "PROTOBUF",
        references=[{"name": "cups/cup.proto", "subject": "cup", "version": 1}],
    )
    registry.answers["/subjects/cup/versions/1"] = (
        200,
        {"schemaType": "PROTOBUF", "schema": base64.b64encode(other.SerializeToString()).decode()},
    )
    at = timestamp_pb2.Timestamp(seconds=9).SerializeToString()
    message = await decoded(
        registry, framed(4, b"\0" + b"\x0a\x02\x08\x03" + b"\x12" + bytes([len(at)]) + at)
    )
    assert (message.cup.size, message.at.seconds) == (3, 9)
    refund = await decoded(registry, framed(4, b"\x02\x02" + b"\x08\x05"))
    assert (type(refund).__name__, refund.id) == ("Refund", 5)
    reason = await decoded(registry, framed(4, b"\x04\x02\x00" + b"\x0a\x03tea"))
    assert (type(reason).__name__, reason.text) == ("Reason", "tea")
    for wrong in (b"\x7f", b"\x06\x02", b"\x02\x09", b"\x80\x80\x80\x80\x80\x80", b"", b"\x01", b"\x02\x01"):
        with pytest.raises(UndecodableRecord, match="offset 7 of orders-0 does not follow its schema 4"):
            await decoded(registry, framed(4, wrong))


@with_registry
async def test_a_record_that_cannot_be_decoded_says_which_and_why(registry: ServedRegistry) -> None:
    registry.add(1, ORDER)
    registry.add(2, "{", "AVRO")
    registry.add(3, 'syntax = "proto3";\nmessage {', "PROTOBUF")
    registry.add(4, "x", "THRIFT")
    registry.answers["/schemas/ids/5"] = (200, "<html>")
    registry.answers["/schemas/ids/6"] = (401, "")
    for schema_id, kind, words in (
        (1, UndecodableRecord, "value of the record at offset 7 of orders-0 does not follow its schema 1: "),
        (2, SchemaUnavailable, "schema 2 cannot be used: JSONDecodeError"),
        (3, SchemaUnavailable, "schema 3 cannot be used: in its .proto text, line 2: a name is expected"),
        (4, SchemaUnavailable, "schema 4 is of the kind 'THRIFT'"),
        (5, SchemaUnavailable, "answers as no schema registry does"),
        (6, SchemaUnavailable, r"may not be read \(.* answered 401\): give SchemaRegistry a user"),
        (7, SchemaUnavailable, "schema 7 is not in the registry at .*: .*Schema not found"),
    ):
        with pytest.raises(kind, match=words):
            await decoded(registry, framed(schema_id, b"\xff"))
    with pytest.raises(UndecodableRecord, match="1 bytes are left over behind the Avro value"):
        await decoded(registry, framed(1, avro({"id": 5, "drink": "tea"}) + b"x"))
    for wrong in (b"", b"\0\0\0\0", b"{}   ", b"\1\0\0\0\1"):
        with pytest.raises(UndecodableRecord, match="does not begin with a schema registry's header"):
            await decoded(registry, wrong)


@with_registry
async def test_a_schema_is_read_once_and_a_missing_one_again_later(registry: ServedRegistry) -> None:
    found = SchemaRegistry(registry.url)
    registry.add(1, {"type": "object"}, "JSON")
    for _ in range(3):
        assert await decoded(found, framed(1, b"{}")) == {}
        with pytest.raises(SchemaUnavailable):
            await decoded(found, framed(2, b"{}"))
    assert sorted(registry.asked) == ["/schemas/ids/1", "/schemas/ids/2"]
    found._missing[2] = (0.0, SchemaUnavailable("its time is over"))
    registry.add(2, {"type": "object"}, "JSON")
    assert await decoded(found, framed(2, b"{}")) == {}


@with_registry
async def test_what_is_kept_has_a_bound(registry: ServedRegistry) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry_module, "SCHEMAS_KEPT_MAX", 3)
        found = SchemaRegistry(registry.url)
        for schema_id in range(5):
            registry.add(schema_id, {"type": "object"}, "JSON")
        await found.read(range(10))
        assert len(found._known) == len(found._missing) == 3


@with_registry
async def test_the_next_address_answers_for_one_that_is_away(registry: ServedRegistry) -> None:
    registry.add(1, {"type": "object"}, "JSON")
    assert await decoded(SchemaRegistry(f"http://127.0.0.1:1, {registry.url}/"), framed(1, b"{}")) == {}
    registry.answers["/schemas/ids/2"] = (503, "")
    with pytest.raises(SchemaUnavailable, match=r"schema 2 was not read within 0\.2 s: .* answered 503"):
        await decoded(SchemaRegistry(registry.url, timeout_ms=200), framed(2, b"{}"))


@with_registry
async def test_a_schema_and_its_references_have_bounds(registry: ServedRegistry) -> None:
    registry.answers["/schemas/ids/1"] = (200, {"schema": "x" * (4 << 20)})
    with pytest.raises(SchemaUnavailable, match="schema 1 is larger than 4194304 bytes"):
        await decoded(registry, framed(1, b"{}"))
    many = [{"name": f"n{one}", "subject": f"s{one}", "version": 1} for one in range(101)]
    registry.add(2, ORDER, references=many)
    for one in many:
        named = {"type": "record", "name": one["name"], "fields": []}
        registry.answers[f"/subjects/{one['subject']}/versions/1"] = (200, {"schema": json.dumps(named)})
    with pytest.raises(SchemaUnavailable, match="schema 2 refers to more than 100 others"):
        await decoded(registry, framed(2, b"{}"))
    around = [{"name": "Order", "subject": "round", "version": 1}]
    registry.add(3, ORDER, references=around)
    registry.answers["/subjects/round/versions/1"] = (
        200,
        {"schema": json.dumps(ORDER), "references": around},
    )
    assert await decoded(registry, framed(3, avro({"id": 5, "drink": "tea"}))) == {"id": 5, "drink": "tea"}


@with_registry
async def test_logins_are_sent_and_never_shown(registry: ServedRegistry) -> None:
    registry.add(1, {"type": "object"}, "JSON")
    where = registry.url.removeprefix("http://")
    basic = "Basic " + base64.b64encode(b"anna:se:cret").decode()
    for found, login in (
        (SchemaRegistry(registry.url, user="anna", password="se:cret"), basic),
        (SchemaRegistry(f"http://anna:se%3Acret@{where}"), basic),
        (SchemaRegistry(registry.url, token="secret"), "Bearer secret"),
    ):
        assert await decoded(found, framed(1, b"{}")) == {}
        assert registry.logins.pop() == login
        assert "cret" not in repr(found)


@pytest.mark.parametrize(
    ("url", "more", "words"),
    [
        ("127.0.0.1:8081", {}, "no address of a schema registry"),
        ("ftp://x:y@here/", {}, "^here is no address"),
        (" , ", {}, "no schema registry is named"),
        ("http://here", {"user": "anna"}, "a user with a password, or a token"),
        ("http://here", {"user": "a", "password": "b", "token": "c"}, "a user with a password, or a token"),
        ("https://here", {"ca_file": "/absent"}, "'/absent' cannot be used"),
        ("https://here", {"ca_file": __file__}, "has to be the PEM file of an authority"),
    ],
)
def test_a_wrong_address_or_login_is_refused(url: str, more: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidRequest, match=words):
        SchemaRegistry(url, **more)


def test_an_address_may_have_a_path() -> None:
    found = parse_address("https://here/apis/ccompat/v7/", login=None, token=None, ca_file=None)
    assert found.urls == ("https://here/apis/ccompat/v7",)


def test_without_a_registry_nothing_of_it_is_loaded() -> None:
    program = (
        "import sys; from odradek import Consumer; Consumer; "
        "print([one for one in ('json', 'aiohttp', 'fastavro', 'google.protobuf') if one in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_record_without_a_registry_says_how_to_name_one() -> None:
    with pytest.raises(InvalidRequest, match="the record's consumer has no schema registry: name one"):
        _ = record_of(b"").decoded_value
    with pytest.raises(InvalidRequest, match=r"schema_parts is \['topic'\]; it can have"):
        Consumer(Client("127.0.0.1:1"), "orders", schema_registry="http://here", schema_parts=["topic"])


@pytest.mark.integration
@with_client
async def test_a_consumer_decodes_and_goes_past_what_it_cannot(client: Client, unique: str) -> None:
    await Admin(client).topics.create(unique)
    values = [framed(1, avro({"id": number, "drink": "tea"})) for number in range(4)]
    values[1] = b"no header"
    async with Producer(client) as producer:
        for value in values:
            await producer.send(unique, value, key=framed(9, b'"k"'))
    async with served() as registry:
        registry.add(1, ORDER)
        registry.add(9, {"type": "string"}, "JSON")
        seen: list[object] = []
        async with Consumer(
            client,
            unique,
            auto_offset_reset="earliest",
            schema_registry=registry.url,
            schema_parts=("key", "value"),
        ) as consumer:
            async for record in consumer:
                try:
                    seen.append(record.decoded_value["id"])
                except UndecodableRecord:
                    seen.append(record.value)
                assert record.decoded_key == "k"
                if record.offset == 3:
                    break
            assert seen == [0, b"no header", 2, 3]
            await consumer.seek(TopicPartition(unique, 0), "earliest")
            assert [one.offset for one in await consumer.poll()] == [0, 1, 2, 3]
        assert sorted(registry.asked) == ["/schemas/ids/1", "/schemas/ids/9"]


@pytest.mark.integration
@with_client
async def test_records_are_read_again_when_the_wait_for_a_schema_is_cancelled(
    client: Client, unique: str
) -> None:
    await Admin(client).topics.create(unique)
    async with Producer(client) as producer:
        await producer.send_many(unique, [framed(1, b"{}"), framed(1, b"{}")])
    async with served() as registry:
        registry.answers["/schemas/ids/1"] = (503, "")
        async with Consumer(
            client, unique, auto_offset_reset="earliest", schema_registry=registry.url
        ) as consumer:
            reading = asyncio.ensure_future(consumer.poll(timeout_ms=60_000))
            await eventually("the registry is asked", lambda: registry.asked)
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reading
            assert consumer.position(TopicPartition(unique, 0)) == 0
            registry.add(1, {"type": "object"}, "JSON")
            assert [one.decoded_value for one in await consumer.poll()] == [{}, {}]


@pytest.mark.integration
def test_the_synchronous_form_decodes_too(bootstrap: str, unique: str) -> None:
    with sync.Client(bootstrap) as client:
        sync.Admin(client).topics.create(unique)
        with sync.Producer(client) as producer:
            producer.send_many(unique, [framed(1, b'{"n": %d}' % number) for number in range(3)])
        with (
            RegistryThread() as loop,
            sync.Consumer(
                client, unique, auto_offset_reset="earliest", schema_registry=loop.registry.url
            ) as consumer,
        ):
            loop.registry.add(1, {"type": "object"}, "JSON")
            first = next(consumer)
            rest = consumer.poll()
            assert [one.decoded_value for one in (first, *rest)] == [{"n": 0}, {"n": 1}, {"n": 2}]
