"""What the serializers of confluent-kafka write with a registry, `odradek.Consumer` decodes with it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from odradek import Client, Consumer
from odradek.errors import SchemaUnavailable
from tests.support.java import JavaUnavailableError
from tests.support.local_process import running
from tests.support.peers import skip_or_fail
from tests.support.schema_registry import SchemaRegistryProcess

pytestmark = [pytest.mark.clients, pytest.mark.thorough]

AVRO = """{"type": "record", "name": "Order", "fields": [
    {"name": "id", "type": "long"},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {"name": "sum", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
    {"name": "note", "type": ["null", "string"], "default": null}]}"""
JSON = """{"$schema": "http://json-schema.org/draft-07/schema#", "title": "Order", "type": "object",
    "properties": {"id": {"type": "integer"}, "drinks": {"type": "array", "items": {"type": "string"}}}}"""


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SchemaRegistryProcess]:
    process = SchemaRegistryProcess(tmp_path_factory.mktemp("registry") / "registry.log")
    try:
        with running(process):
            yield process
    except JavaUnavailableError as error:
        skip_or_fail(str(error))


def write(bootstrap: str, topic: str, serializer: Any, values: list[Any]) -> None:
    """As the pages of confluent-kafka do it."""
    from confluent_kafka import Producer
    from confluent_kafka.serialization import MessageField, SerializationContext

    producer = Producer({"bootstrap.servers": bootstrap})
    for value in values:
        producer.produce(topic, serializer(value, SerializationContext(topic, MessageField.VALUE)))
    assert producer.flush(60) == 0


def read(bootstrap: str, topic: str, url: str, count: int) -> list[Any]:
    async def main() -> list[Any]:
        seen: list[Any] = []
        async with (
            Client(bootstrap) as client,
            Consumer(client, topic, auto_offset_reset="earliest", schema_registry=url) as consumer,
        ):
            async for record in consumer:
                seen.append(record.decoded_value)
                if len(seen) == count:
                    return seen
        raise AssertionError

    return asyncio.run(main())


@pytest.fixture
def client(registry: SchemaRegistryProcess) -> Iterator[Any]:
    from confluent_kafka.schema_registry import SchemaRegistryClient

    with SchemaRegistryClient({"url": registry.url}) as client:
        yield client


def test_avro(bootstrap: str, topic: str, registry: SchemaRegistryProcess, client: Any) -> None:
    from confluent_kafka.schema_registry.avro import AvroSerializer

    orders = [
        {"id": 1, "at": datetime(2026, 3, 1, 9, tzinfo=UTC), "sum": Decimal("2.50"), "note": None},
        {"id": 2, "at": datetime(2026, 3, 1, 10, tzinfo=UTC), "sum": Decimal("-1.05"), "note": "süß"},
    ]
    write(bootstrap, topic, AvroSerializer(client, AVRO), orders)
    assert read(bootstrap, topic, registry.url, 2) == orders


def test_json(bootstrap: str, topic: str, registry: SchemaRegistryProcess, client: Any) -> None:
    from confluent_kafka.schema_registry.json_schema import JSONSerializer

    orders = [{"id": 1, "drinks": ["tea"]}, {"id": 2, "drinks": []}]
    write(bootstrap, topic, JSONSerializer(JSON, client), orders)
    assert read(bootstrap, topic, registry.url, 2) == orders


def test_protobuf(bootstrap: str, topic: str, registry: SchemaRegistryProcess, client: Any) -> None:
    """A message that has two of Google's own, so that the schema has references."""
    from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
    from google.protobuf import api_pb2

    methods = [api_pb2.Method(name=f"brew-{number}", request_streaming=True) for number in range(2)]
    for method in methods:
        method.options.add(name="size").value.Pack(api_pb2.Mixin(name="cup"))
    serializer = ProtobufSerializer(api_pb2.Method, client, {"use.deprecated.format": False})
    write(bootstrap, topic, serializer, methods)
    found = read(bootstrap, topic, registry.url, 2)
    assert [one.SerializeToString() for one in found] == [one.SerializeToString() for one in methods]
    assert [type(one).DESCRIPTOR.full_name for one in found] == ["google.protobuf.Method"] * 2


def test_protobuf_as_text(bootstrap: str, topic: str, registry: SchemaRegistryProcess, client: Any) -> None:
    """Java's serializer registers text, with a reference for each import but Google's own."""
    from confluent_kafka.schema_registry import Schema, SchemaReference

    cup = 'syntax = "proto3"; package shop; message Cup { int32 size = 1; }'
    order = """syntax = "proto3"; package shop; import "cup.proto"; import "google/protobuf/timestamp.proto";
    message Refund {} message Order { Cup cup = 1; google.protobuf.Timestamp at = 2; map<string, Cup> more = 3; }"""
    client.register_schema("cup.proto", Schema(cup, "PROTOBUF"))
    reference = SchemaReference("cup.proto", "cup.proto", 1)
    schema_id = client.register_schema(f"{topic}-value", Schema(order, "PROTOBUF", [reference]))
    message = b"\x02\x02" + b"\x0a\x02\x08\x03" + b"\x12\x02\x08\x09"
    header = b"\0" + schema_id.to_bytes(4, "big")
    write(bootstrap, topic, lambda value, context: value, [header + message])
    (found,) = read(bootstrap, topic, registry.url, 1)
    assert (type(found).__name__, found.cup.size, found.at.seconds) == ("Order", 3, 9)


def test_what_no_serializer_wrote_is_an_error(
    bootstrap: str, topic: str, registry: SchemaRegistryProcess
) -> None:
    write(bootstrap, topic, lambda value, context: value, [b"\0\0\0\xff\xffx"])
    with pytest.raises(SchemaUnavailable, match="schema 65535 is not in the registry at http"):
        read(bootstrap, topic, registry.url, 1)
