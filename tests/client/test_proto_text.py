"""Texts of .proto files: what is read equals what protoc makes of them, and garbage is an error with its line."""

from __future__ import annotations

import base64
import zlib
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, timestamp_pb2
from hypothesis import given
from hypothesis import strategies as st

from odradek.client.schemas.decoding import RegisteredSchema, SchemaFile, make_decode
from odradek.client.schemas.json_text import to_json
from odradek.client.schemas.proto_text import ProtoTextError, parse_proto
from odradek.errors import SchemaUnavailable
from odradek.foundation.client_limits import PROTO_TEXT_BYTES_MAX, PROTO_TEXT_DEPTH_MAX

PROTO2 = r"""// A comment before all; "quotes' in it
syntax = "proto2";
package shop.v1;
/* a block
   of comment */
import public "google/protobuf/timestamp.proto";
import "google/protobuf/descriptor.proto";
option java_package = "a;b{";
extend google.protobuf.FieldOptions { optional string note = 50001; }
enum Size {
  option allow_alias = true;
  SMALL = 0; LITTLE = 0 [deprecated = true]; BIG = -0x10;
  reserved 5, 7 to 9; reserved "OLD";
}
message Order {
  reserved 100, 200 to 300; reserved "x", "y";
  extensions 1000 to 1999 [verification = UNVERIFIED];
  required int64 id = 1 [default = 017];
  optional string drink = 2 [default = "te\"a\x41\101\n" 'more', (note) = "x];", json_name = "Trunk"];
  optional bytes raw = 3 [default = "\001\377"];
  optional double price = 4 [default = -1.5];
  optional float odd = 5 [default = -inf];
  optional Size size = 6 [default = BIG];
  optional bool hot = 7 [default = true];
  repeated group Line = 8 { optional string text = 1; repeated int32 n = 2 [packed = true]; }
  map<string, Cup> cup_by_name = 9;
  map<int32, Size> sizes = 10;
  oneof pay { string card = 11; .shop.v1.Order.Cup cup = 12; group Cash = 13 { optional int32 cents = 1; } }
  message Cup {
    optional int32 size = 1;
    message Lid { optional bool open = 1; }
    enum Kind { K = 0; }
    optional Lid lid = 2; optional Kind kind = 3;
  }
  optional google.protobuf.Timestamp at = 14;
  optional Cup.Lid lid = 15;
  optional uint64 big = 16 [default = 18446744073709551615];
  optional int32 neg = 17 [default = -0xF];
  ;
};
service Shop { rpc Sell (Order) returns (stream Order) { option deprecated = true; } }
"""
PROTO3 = """syntax = 'proto3';
package shop;
message Order {
  optional int32 size = 1;
  oneof pay { string card = 2; }
  optional Cup cup = 3;
  map<string, Cup> cup_by_name = 4;
  message Cup { double litres = 1; }
  repeated sint64 steps = 5 [packed = false];
  enum Kind { NONE = 0; packed = 1; }
  Kind message_kind = 6;
  string message = 7; string map = 8; string group = 9; string oneof = 10; string optional = 11;
}
"""
# What protoc 35.1 makes of them: a FileDescriptorProto, compressed.
COMPILED = {
    PROTO2: (
        "eNqFk1FT20YQxy3dyZbX4KjXlB6aMmHcmdYlQdgGYyqmDzihCcQtmQuP6WSEdQENRtJIMsXte6fT9770O+Qx3yGP6bfIY75BsyeZ"
        "FExmogfpdve3e7d7f0HlwomTKItYJT2JYue8bd85jqLjkVzL3UfjF2tZcCbTzDuLC9JengV8mQ6TIM6ipCAaf5tgHCS+TBgDPfC5"
        "tqw3iau3uwIttgKGnwThKdeXtWbVrWWy4e3swFmUyH7lr1ecXPyyLYzDZByeMhtI4v3KCZJzrvms1Wo/W+/1hHJizIiTYCg5xajm"
        "0tW20xWFiy0AiXyfGxjRMRKEL4RysG+ApsFvkpcxUO/MO9OmnafodEl/76HI4yr/JMp4BTHTpVkylkI52LdAR0EoublMmtD5/EN+"
        "3q0zwJDIAfYD1Ibj+PnR5HnonUleRb7WWZrh74/j/uRnjO+GWTIR1eGlzdbAUOdIOeSJizOJ6rhpkVRw7DbQoZf4vKZm+qgkcgvb"
        "JViTz6Gz1mE3d0dQAew7lZ2e8HkEb7Z1H0NFyfQEb0/3Ml7PK9pOIQXnUgrO4aVWBFKsCWSE138rhxdubo8D84VC1EGPgmNuIUnd"
        "2+2tjY3N3sZGq7fea33f7bY3UToKYF8ACeUx/ww5wyWryo22fQ+omj3KjWbyIkPB4RREvmYWaCFKjTSNvm5pQgvtJ1C/PnlkyKmc"
        "TNPUEo9unHujscxF+tHZiQJw9S3Nfgjw/5VcrWYU1b6+Wm1Wd1cLfQVUTRuv0xjKMEunRQrD/kcDgjurNnMVF8FCsdNZ65+e9V2g"
        "p0Ho5z9VvfPlR9DHGBY5ZC8CwUS1YxTLMN/RFPm6MQ9UgcwA7bFVWimbbyvWm1t9A0jsTfap6Vtyv2y+1qyXutAuhDZZeQRUNcyq"
        "YDz9aWcwsEqsDuXB3uHhYNcq2bqpqdnhX2i9+2/6aDZeWoOahmXgu2JVV8jB4EGni5Xw2GwVv3I0YvXrXdgzdoP8qWstzV0HGkaZ"
        "ZEs3hPtjIEf+QZwFUZjyf/8ghYAU3C8D9baPfn9Seg+0TlnS"
    ),
    PROTO3: (
        "eNplkl9LwzAUxdc2abdbmSWIhqIwBopPfXAvssfKYCBukC9QsjbOsq0NbSfWN9/82CbpJv55u79zbm5ybgveWySrsikJql9KOf5A"
        "gJdVJipyAajO3wW1RtYtnlvM0KdlkTNAKa8yaitjMO8xQ+QGnHQvqaNE/+400sMiMyh62Mu5zbSrT0/BV1WyapOC7wRFI0f1h3/6"
        "43ahzFnRVC0bpEcmFHDdCFlTrE6R2A56rBPIBE52oq75WiSbvMioq54xvAt+jn1UOvMPXRrUOO+A1NNZ2BFJAM6OS9o3qi5VaLyu"
        "ShVwYLQOtFoWonym0KkGSAj9UjZ5WfAt9Y3xzeETDH/n03dtRGvWrO5SJbkG/Mq3e2E2/H+ZrHOn9r0VXoGjFHIO7jZvKlGbMRY7"
        "0PgSkEnaB7RYLmZBjwC4kqcbkQVWjMGRvI09wIn+trELKFHLXrnmh5h8ASnRjGk="
    ),
}


def build(file: descriptor_pb2.FileDescriptorProto) -> descriptor_pb2.FileDescriptorProto:
    """The file as a pool has it, with all names resolved, and without what values do not need."""
    pool = descriptor_pool.DescriptorPool()
    file.name = "built.proto"
    for known in (timestamp_pb2.DESCRIPTOR, descriptor_pb2.DESCRIPTOR):
        pool.AddSerializedFile(known.serialized_pb)
    pool.Add(file)
    found = descriptor_pb2.FileDescriptorProto()
    pool.FindFileByName("built.proto").CopyToProto(found)
    for name in ("service", "extension", "options", "syntax"):
        found.ClearField(name)
    for message in found.message_type:
        strip(message)
    for enum in found.enum_type:
        strip_enum(enum)
    return found


def strip(message: descriptor_pb2.DescriptorProto) -> None:
    for name in ("reserved_range", "reserved_name", "extension_range"):
        message.ClearField(name)
    for field in message.field:
        field.ClearField("options")
        first, *rest = field.name.split("_")
        if field.json_name == first + "".join(map(str.capitalize, rest)):
            field.ClearField("json_name")  # protoc writes down what follows from the name
    for enum in message.enum_type:
        strip_enum(enum)
    # Those of maps come last here.
    nested = sorted(message.nested_type, key=lambda one: one.options.map_entry)
    message.ClearField("nested_type")
    message.nested_type.extend(nested)
    for one in message.nested_type:
        strip(one)


def strip_enum(enum: descriptor_pb2.EnumDescriptorProto) -> None:
    for name in ("reserved_range", "reserved_name"):
        enum.ClearField(name)
    for value in enum.value:
        value.ClearField("options")


@pytest.mark.parametrize("text", [PROTO2, PROTO3], ids=["proto2", "proto3"])
def test_what_is_read_is_what_protoc_makes(text: str) -> None:
    compiled = zlib.decompress(base64.b64decode(COMPILED[text]))
    assert build(parse_proto(text)) == build(descriptor_pb2.FileDescriptorProto.FromString(compiled))


def decoded(text: str, data: bytes, *references: SchemaFile) -> Any:
    return make_decode(RegisteredSchema(4, SchemaFile("PROTOBUF", text), references))(data)


def test_imports_are_googles_own_or_references_or_left_out() -> None:
    text = """
        syntax = "proto3";
        import "google/protobuf/timestamp.proto"; import "cups/cup.proto"; import "confluent/meta.proto";
        message Order { google.protobuf.Timestamp at = 1 [(confluent.field_meta) = { doc: "when" }]; shop.Cup cup = 2; }
    """
    cup = SchemaFile(
        "PROTOBUF", 'syntax = "proto3"; package shop; message Cup { int32 size = 1; }', "cups/cup.proto"
    )
    order = decoded(text, b"\0\x0a\x02\x08\x09\x12\x02\x08\x03", cup)
    assert to_json(order) == b'{"at": "1970-01-01T00:00:09Z", "cup": {"size": 3}}'
    with pytest.raises(SchemaUnavailable, match=r"schema 4 cannot be used: \w+: .*shop\.Cup"):
        decoded(text, b"\0")


def test_a_header_counts_messages_without_those_of_maps() -> None:
    cup = decoded(PROTO3, b"\4\0\0" + b"\x09" + b"\0" * 6 + b"\xe0\x3f")
    assert (type(cup).__name__, cup.litres) == ("Cup", 0.5)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("message A {\n int32 a = 1\n}", "line 3: ';' is expected, and not '}'"),
        ("message A {", "line 1: the text ends too early"),
        ("\n\nmessage 5 {}", "line 3: a name is expected, and not '5'"),
        ("syntax = 'proto4';", "line 1: the syntax 'proto4' is neither proto2 nor proto3"),
        ("edition = '2023';", "line 1: 'edition' begins nothing that a .proto file can have"),
        ("message A { int32 a = 1.5; }", "line 1: '1.5' is no whole number"),
        ("message A { int32 a = 99999999999; }", "line 1: "),
        ("/* no end", "line 1: '/* no end' is not understood"),
        ("option a = (];", "line 1: ']' closes nothing"),
        ("import '\ud800';", "line 1: "),
        (
            "message A {" * (PROTO_TEXT_DEPTH_MAX + 1),
            f"messages are more than {PROTO_TEXT_DEPTH_MAX} levels deep",
        ),
    ],
)
def test_what_is_no_proto_is_an_error_with_its_line(text: str, words: str) -> None:
    with pytest.raises(ProtoTextError) as raised:
        parse_proto(text)
    assert words in str(raised.value)
    with pytest.raises(SchemaUnavailable, match=r"schema 4 cannot be used: in its \.proto text, line "):
        decoded(text, b"\0")


@pytest.mark.parametrize("opened", ["{", "[", "("])
def test_depth_of_what_is_passed_over_costs_no_stack(opened: str) -> None:
    with pytest.raises(ProtoTextError, match="the text ends too early"):
        parse_proto("option a = " + opened * 20_000)


def test_text_has_a_bound_over_all_files_of_a_schema() -> None:
    half = f"// {'x' * (PROTO_TEXT_BYTES_MAX // 2)}"
    with pytest.raises(SchemaUnavailable, match=r"schema 4 has \d+ bytes of \.proto text"):
        decoded(half, b"\0", SchemaFile("PROTOBUF", half, "other.proto"))


@given(
    st.integers(0, len(PROTO2)), st.integers(0, 12), st.sampled_from([*'{};"[<-1', "message", "\ud800", "\0"])
)
def test_damaged_text_is_read_or_an_error(at: int, length: int, instead: str) -> None:
    try:
        parse_proto(PROTO2[:at] + instead + PROTO2[at + length :])
    except ProtoTextError as failure:
        assert str(failure).startswith("line ")
