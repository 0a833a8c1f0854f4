"""Values in Avro, Protobuf and JSON, behind the header of a schema registry.

fastavro and protobuf decode; both are in the extra `schemas` and are imported with the first schema of their kind.
Avro's `bytes` alone are taken as they are, as Java's deserializer does.
"""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from odradek.client.errors import SchemaUnavailable, UndecodableRecord
from odradek.client.schemas.header import Decode, Decoded
from odradek.foundation.client_limits import PROTO_TEXT_BYTES_MAX
from odradek.foundation.errors import DependencyError

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.message import Message

_VARINT_BITS_MAX: Final = 35
# The compiled form of a .proto file. Text of one with a message has braces.
_BASE64: Final = re.compile(r"[A-Za-z0-9+/]*={0,2}")
# Steps from a file's message to one inside of it; more is no header.
_MESSAGE_DEPTH_MAX: Final = 32


class SchemaFile(NamedTuple):
    """A schema as a registry has it. `name` is the one by which another schema refers to it."""

    kind: str
    text: str
    name: str = ""


class RegisteredSchema(NamedTuple):
    """A schema with all that it refers to, each behind what it refers to itself."""

    schema_id: int
    file: SchemaFile
    references: tuple[SchemaFile, ...] = ()


def make_decode(schema: RegisteredSchema) -> Decode:
    """What decodes values of this schema. Raises SchemaUnavailable for one that cannot be used, and DependencyError."""
    makers = {"AVRO": _make_avro, "JSON": _make_json, "PROTOBUF": _make_protobuf}
    make = makers.get(schema.file.kind)
    if make is None:
        raise SchemaUnavailable(
            f"schema {schema.schema_id} is of the kind {schema.file.kind!r}; this client decodes {', '.join(makers)}"
        )
    try:
        return make(schema)
    except (DependencyError, SchemaUnavailable):
        raise
    except Exception as failure:  # libraries of three formats have no common error for a schema they refuse
        raise SchemaUnavailable(
            f"schema {schema.schema_id} cannot be used: {type(failure).__name__}: {str(failure)[:300]}"
        ) from failure


def _make_json(schema: RegisteredSchema) -> Decode:
    """A JSON schema adds no meaning to the bytes. Whether they follow it is the producer's to check."""
    return json.loads


def _make_avro(schema: RegisteredSchema) -> Decode:
    try:
        from fastavro import parse_schema, schemaless_reader
    except ImportError as failure:
        raise _missing("Avro", "fastavro") from failure
    named: dict[str, dict[str, object]] = {}
    for reference in schema.references:
        parse_schema(json.loads(reference.text), named)
    parsed = parse_schema(json.loads(schema.file.text), named)
    if parsed == "bytes" or (isinstance(parsed, dict) and parsed == {"type": "bytes"}):
        return bytes
    arrays = (part for part in _parts(parsed, named) if part.get("type") == "array")
    known: dict[str, bool] = {}
    if not all(_takes_bytes(array["items"], named, known) for array in arrays):
        raise SchemaUnavailable(
            f"schema {schema.schema_id} has an array whose items take no bytes, so a record of ten bytes may hold "
            "billions of them. Give the items a field, or count them in a long"
        )
    read_value = schemaless_reader
    if _is_recursive(parsed, named):
        # The compiled reader has no bound of depth: 5,000 bytes of a type within itself end the process by a signal.
        from fastavro._read_py import schemaless_reader as read_value

    def decode(data: bytes) -> Decoded:
        stream = io.BytesIO(data)
        found = read_value(stream, parsed, None)
        if stream.tell() != len(data):
            raise UndecodableRecord(f"{len(data) - stream.tell()} bytes are left over behind the Avro value")
        return found

    return decode


def _parts(parsed: object, named: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    """Each type of a parsed schema that is not a bare name, and of what it refers to, once."""
    seen: set[str] = set()
    waiting = [parsed]
    while waiting:
        part = waiting.pop()
        if isinstance(part, str) and part in named and part not in seen:
            seen.add(part)
            waiting.append(named[part])
        elif isinstance(part, list):
            waiting += part
        elif isinstance(part, dict):
            yield part
            waiting += _list_inner_types(part)


def _list_inner_types(part: Mapping[str, object]) -> list[object]:
    """The types that a type consists of; None among them where it has no such part."""
    fields = cast(Collection[Mapping[str, object]], part.get("fields", ()))
    return [*(part.get(key) for key in ("type", "items", "values")), *(field.get("type") for field in fields)]


def _takes_bytes(part: object, named: Mapping[str, object], known: dict[str, bool]) -> bool:
    """Whether each value of a type takes a byte at least. `known` keeps the answers for types with a name."""
    if isinstance(part, str):
        if part not in named:
            return part != "null"
        if part not in known:
            known[part] = True  # Within itself: such a value never ends without a union, which takes a byte.
            known[part] = _takes_bytes(named[part], named, known)
        return known[part]
    if not isinstance(part, dict):
        return True  # A union begins with the number of its branch.
    kind = part.get("type")
    if kind in ("record", "error"):
        return any(_takes_bytes(field.get("type"), named, known) for field in part.get("fields", ()))
    if kind == "fixed":
        return int(part["size"]) > 0
    return kind in ("array", "map", "enum") or _takes_bytes(kind, named, known)


def _is_recursive(parsed: object, named: Mapping[str, object]) -> bool:
    """Whether a type of the schema, or of what it refers to, is within itself."""
    done: set[str] = set()

    def visit(part: object, inside: frozenset[str]) -> bool:
        if isinstance(part, str):
            return part in inside or (part not in done and part in named and visit(named[part], inside))
        if isinstance(part, list):
            return any(visit(one, inside) for one in part)
        if not isinstance(part, dict):
            return False
        name = part.get("name")
        if isinstance(name, str) and name in named:
            inside |= {name}
        if any(visit(one, inside) for one in _list_inner_types(part)):
            return True
        if isinstance(name, str):
            done.add(name)
        return False

    return visit(parsed, frozenset())


def _make_protobuf(schema: RegisteredSchema) -> Decode:
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    except ImportError as failure:
        raise _missing("Protobuf", "protobuf") from failure
    pool = descriptor_pool.DescriptorPool()
    added: set[str] = set()

    def add(file: FileDescriptorProto, name: str) -> str:
        file.name = name or file.name
        for wanted in file.dependency:
            if wanted not in added and wanted.startswith("google/protobuf/"):
                # Google's own types come with its package.
                __import__(wanted.removesuffix(".proto").replace("/", ".") + "_pb2")
                known = descriptor_pool.Default().FindFileByName(wanted)
                add(descriptor_pb2.FileDescriptorProto.FromString(known.serialized_pb), wanted)
        pool.Add(file)
        added.add(file.name)
        return str(file.name)

    _check_text_size(schema)
    for reference in schema.references:
        if reference.name not in added:  # one before it may have brought a file of Google's
            add(_read_descriptor(schema, reference, added), reference.name)
    name = add(_read_descriptor(schema, schema.file, added), f"schema-{schema.schema_id}.proto")
    file = pool.FindFileByName(name)
    messages = list(file.message_types_by_name.values())
    kinds: dict[tuple[int, ...], type[Message]] = {}

    def decode(data: bytes) -> Decoded:
        path, start = _read_message_path(data)
        if path not in kinds:
            found = messages[path[0]]
            for step in path[1:]:
                found = found.nested_types[step]
            kinds[path] = message_factory.GetMessageClass(found)
        return kinds[path].FromString(data[start:])

    return decode


def _check_text_size(schema: RegisteredSchema) -> None:
    size_bytes = sum(len(one.text) for one in (schema.file, *schema.references) if not _is_base64(one.text))
    if size_bytes > PROTO_TEXT_BYTES_MAX:
        raise SchemaUnavailable(
            f"schema {schema.schema_id} has {size_bytes} bytes of .proto text, and this client reads "
            f"{PROTO_TEXT_BYTES_MAX} at most. "
            "Register the base64 of its FileDescriptorProto, as Python's serializer does"
        )


def _is_base64(text: str) -> bool:
    return _BASE64.fullmatch(text) is not None


def _read_descriptor(
    schema: RegisteredSchema, file: SchemaFile, known: Collection[str]
) -> FileDescriptorProto:
    """A file that the registry has in its compiled form, or as text. Imports of text that only options need may be
    missing: the pool finds the types that it needs, or says which one it does not.
    """
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    if _is_base64(file.text):
        return FileDescriptorProto.FromString(base64.b64decode(file.text, validate=True))
    # Its library comes with the extra for schemas alone.
    from odradek.client.schemas.proto_text import ProtoTextError, parse_proto

    try:
        found = parse_proto(file.text)
    except ProtoTextError as failure:
        raise SchemaUnavailable(
            f"schema {schema.schema_id} cannot be used: in {file.name or 'its .proto text'}, {failure}"
        ) from failure
    kept = [one for one in found.dependency if one in known or one.startswith("google/protobuf/")]
    found.ClearField("public_dependency")
    del found.dependency[:]
    found.dependency.extend(kept)
    return found


def _read_message_path(data: bytes) -> tuple[tuple[int, ...], int]:
    """Which message of the file follows: the numbers of the message and of those inside it, and where it begins."""
    count, at = _read_varint(data, 0)
    if count == 0:
        return (0,), at
    if not 0 < count <= _MESSAGE_DEPTH_MAX:
        raise UndecodableRecord(f"its Protobuf header names a message {count} levels deep")
    path = []
    for _ in range(count):
        step, at = _read_varint(data, at)
        if step < 0:
            raise UndecodableRecord("its Protobuf header has a negative number of a message")
        path.append(step)
    return tuple(path), at


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    """A zigzag number, and the place behind it."""
    number = shift = 0
    while shift < _VARINT_BITS_MAX:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at
        shift += 7
    raise UndecodableRecord("its Protobuf header has a number that does not end")


def _missing(format_name: str, package: str) -> DependencyError:
    return DependencyError(
        f"values in {format_name} need the package {package}: pip install {package}, or install odradek[schemas]"
    )
