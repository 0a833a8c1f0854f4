"""Protobuf messages as values: types, presence, bytes left over, and the header of a schema registry."""

from __future__ import annotations

from decimal import Decimal

import pytest

from odradek_pipeline.errors import JobRefusedError
from odradek_pipeline.work.decoding.messages import MessageReader
from odradek_pipeline.work.decoding.schema import PartSchema, as_columns
from tests.support.descriptors import order_bytes, order_set


def schema(
    content: bytes | None = None, *, message: str = "shop.Order", header: bool = False, passing: bool = False
) -> PartSchema:
    given = order_set() if content is None else content
    return PartSchema("value", "protobuf", "shop.desc", given, header, "", message, passing)


def test_a_message_has_the_fields_of_its_descriptor() -> None:
    reader = MessageReader(schema())
    assert {one["name"]: one["type"] for one in as_columns(reader.spark_type(), "")} == {
        "id": "long",
        "customer": "string",
        "lines": {
            "type": "array",
            "elementType": {
                "type": "struct",
                "fields": [{"name": "article", "type": "string", "nullable": True, "metadata": {}}],
            },
            "containsNull": True,
        },
        "totals": {"type": "map", "keyType": "string", "valueType": "long", "valueContainsNull": True},
        "sent": "timestamp",
        "state": "string",
        "size": "decimal(20,0)",
    }
    content = order_bytes(
        id=7, customer="", lines=["a", "b"], totals={"EUR": 3}, seconds=2, state=1, size=2**64 - 1
    )
    assert reader.read(content) == {
        "id": 7,
        "customer": "",
        "lines": [{"article": "a"}, {"article": "b"}],
        "totals": [("EUR", 3)],
        "sent": 2_000_000,
        "state": "PAID",
        "size": Decimal(2**64 - 1),
    }
    empty = reader.read(b"")
    assert (empty["id"], empty["customer"], empty["sent"], empty["state"]) == (0, None, None, "OPEN")
    assert reader.read(order_bytes(state=5))["state"] == "5"


def test_bytes_that_are_left_over_are_named() -> None:
    content = order_bytes(id=7, customer="c")
    older = schema(order_set(names=("id",)))
    with pytest.raises(ValueError, match="left over"):
        MessageReader(older).read(content)
    passing = MessageReader(schema(older.content, passing=True))
    assert passing.read(content) == {"id": 7}
    for broken in (content[:-1], content + b"\xff", content + b"\x0c"):
        with pytest.raises(ValueError, match="no message of the schema"):
            passing.read(broken)
    nested = b"\x1a\x04\x0a\x00\x10\x01"  # a line with a second field
    with pytest.raises(ValueError, match="left over"):
        MessageReader(schema()).read(nested)


def test_a_header_has_the_place_of_the_message_in_its_file() -> None:
    reader = MessageReader(schema(header=True))
    content = order_bytes(id=7)
    assert reader.read(b"\x02\x02" + content)["id"] == 7  # one index, 1
    for before, said in (
        (b"\x00", r"indexes are \[0\], not \[1\]"),
        (b"\x04\x02\x00", r"indexes are \[1, 0\]"),
        (b"\x03", "-2 message indexes"),
        (b"\xff" * 12, "cut off"),
    ):
        with pytest.raises(ValueError, match=said):
            reader.read(before + content)
    with pytest.raises(ValueError, match="cut off"):
        reader.read(b"")
    line = MessageReader(schema(message="shop.Order.Line", header=True))
    assert line.read(b"\x04\x02\x00\x0a\x01x") == {"article": "x"}
    assert MessageReader(schema(message="shop.Other", header=True)).read(b"\x00") == {}


@pytest.mark.parametrize(
    ("content", "message", "said"),
    [
        (None, "shop.Orders", "has no message shop.Orders; it has .*shop.Order, shop.Other"),
        (b"syntax = 'proto3';", "shop.Order", "is no descriptor set"),
        (b"", "shop.Order", "it has none"),
    ],
)
def test_what_is_no_descriptor_of_the_message_is_refused(
    content: bytes | None, message: str, said: str
) -> None:
    with pytest.raises(JobRefusedError, match=said):
        MessageReader(schema(content, message=message))


def test_a_message_that_holds_itself_is_refused() -> None:
    from google.protobuf import descriptor_pb2

    field = descriptor_pb2.FieldDescriptorProto
    found = descriptor_pb2.FileDescriptorSet()
    tree = found.file.add(name="tree.proto", syntax="proto3").message_type.add(name="Tree")
    tree.field.add(
        name="left", number=1, type=field.TYPE_MESSAGE, type_name=".Tree", label=field.LABEL_OPTIONAL
    )
    with pytest.raises(JobRefusedError, match="message Tree holds itself in left"):
        MessageReader(schema(found.SerializeToString(), message="Tree"))
