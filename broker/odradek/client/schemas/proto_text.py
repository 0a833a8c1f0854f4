"""The text of a .proto file as a FileDescriptorProto, for registries that give no other form.

It reads what messages need: messages, enums, oneofs, maps, groups and imports of proto2 and proto3. Names of types stay
as they are written, and protobuf's pool resolves them. Services, extensions, reserved names and options without a
meaning for values are passed over. What is left out changes no other value.

Sources: the language's two specifications (https://protobuf.dev/reference/protobuf/proto3-spec/, and proto2's).
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)

from odradek.foundation.client_limits import PROTO_TEXT_DEPTH_MAX

_TOKEN: Final = re.compile(
    r"""(?P<space>\s+|//[^\n]*|/\*.*?\*/)
    |(?P<name>[A-Za-z_]\w*)
    |(?P<number>0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
    |(?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    |(?P<symbol>[{}()\[\]<>=;,.:+\-]|/(?![/*]))""",
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_ESCAPE: Final = re.compile(
    r"\\(?:[xX]([0-9a-fA-F]{1,2})|([0-7]{1,3})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL
)
_ESCAPED: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_SCALARS: Final = {
    name: FieldDescriptorProto.Type.Value(f"TYPE_{name.upper()}")
    for name in (
        "double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32", "fixed64", "sfixed32",
        "sfixed64", "bool", "string", "bytes",
    )
}  # fmt: skip
_FRACTIONS: Final = (FieldDescriptorProto.TYPE_DOUBLE, FieldDescriptorProto.TYPE_FLOAT)
_LABELS: Final = {
    name: FieldDescriptorProto.Label.Value(f"LABEL_{name.upper()}")
    for name in ("optional", "required", "repeated")
}
_PARENTHESES: Final = {"{": "}", "[": "]", "(": ")"}
_QUOTES: Final = ("'", '"')
_SHOWN_MAX: Final = 40


class ProtoTextError(ValueError):
    """The text is no .proto file, or one that this module does not read. The message has the line."""


def parse_proto(text: str) -> FileDescriptorProto:
    """The file, without a name. Raises ProtoTextError."""
    reader = _Reader(text)
    try:
        return _FileParser(reader).parse()
    except ProtoTextError:
        raise
    except ValueError as failure:  # a number that is too large for its field
        raise reader.error(str(failure)) from failure


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


class _Reader:
    """The tokens of a text, one after the other."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._tokens = self._split()

    def _split(self) -> list[_Token]:
        found: list[_Token] = []
        end = 0
        for match in _TOKEN.finditer(self._text):
            if match.start() != end:
                break
            end = match.end()
            if match.lastgroup != "space":
                found.append(_Token(match.lastgroup or "", match[0], match.start()))
        if end != len(self._text):
            raise self._error_at(end, f"{self._text[end : end + _SHOWN_MAX]!r} is not understood")
        return found

    def error(self, words: str) -> ProtoTextError:
        """An error at the token that was read last."""
        last = self._tokens[max(self._at - 1, 0)].at if self._tokens else 0
        return self._error_at(last, words)

    def _error_at(self, at: int, words: str) -> ProtoTextError:
        return ProtoTextError(f"line {self._text.count(chr(10), 0, at) + 1}: {words}")

    def peek(self, ahead: int = 0) -> str:
        """The token after so many others; "" at the end."""
        at = self._at + ahead
        return self._tokens[at].text if at < len(self._tokens) else ""

    def read(self, kind: str = "") -> str:
        """The next token. Raises ProtoTextError for another kind than this."""
        if self._at >= len(self._tokens):
            raise self.error("the text ends too early")
        token = self._tokens[self._at]
        self._at += 1
        if kind and token.kind != kind:
            raise self.error(f"a {kind} is expected, and not {token.text[:_SHOWN_MAX]!r}")
        return token.text

    def accept(self, text: str) -> bool:
        """Whether the next token is this one, which is then read."""
        if self.peek() != text:
            return False
        self._at += 1
        return True

    def expect(self, text: str) -> None:
        """Read this token. Raises ProtoTextError for another one."""
        found = self.read()
        if found != text:
            raise self.error(f"{text!r} is expected, and not {found[:_SHOWN_MAX]!r}")

    def read_dotted(self) -> str:
        """A name with dots, also before it."""
        parts = ["."] if self.accept(".") else []
        parts.append(self.read("name"))
        while self.accept("."):
            parts += (".", self.read("name"))
        return "".join(parts)

    def read_text(self) -> bytes:
        """A quoted text, or several in a row."""
        found = [_unescape(self.read("text")[1:-1])]
        while self.peek()[:1] in _QUOTES:
            found.append(_unescape(self.read("text")[1:-1]))
        return b"".join(found)

    def read_integer(self) -> int:
        """A whole number in one of three bases, with a sign or without."""
        sign = -1 if self.accept("-") else 1
        text = self.read("number")
        try:
            return sign * (int(text, 8) if re.fullmatch("0[0-7]+", text) else int(text, 0))
        except ValueError:
            raise self.error(f"{text[:_SHOWN_MAX]!r} is no whole number") from None

    def skip_statement(self) -> None:
        """Pass over all up to a semicolon, or over a block in braces."""
        while (token := self.read()) != ";":
            if token in _PARENTHESES:
                self._skip_to_end_of(token)
                if token == "{" and self.peek() != ";":
                    return
            elif token in _PARENTHESES.values():
                raise self.error(f"{token!r} closes nothing")

    def _skip_to_end_of(self, opened: str) -> None:
        """Pass over a block without recursion, so that depth costs nothing."""
        wanted = [_PARENTHESES[opened]]
        while wanted:
            token = self.read()
            if token in _PARENTHESES:
                wanted.append(_PARENTHESES[token])
            elif token in _PARENTHESES.values() and wanted.pop() != token:
                raise self.error(f"{token!r} closes nothing")

    def read_options(self) -> dict[str, str | bytes]:
        """The options in brackets behind a field, if any: those with a name of one word and a simple value."""
        found: dict[str, str | bytes] = {}
        if not self.accept("["):
            return found
        while True:
            name = self._read_option_name()
            self.expect("=")
            value = self._read_option_value()
            if value is not None:
                found[name] = value
            if not self.accept(","):
                break
        self.expect("]")
        return found

    def _read_option_name(self) -> str:
        parts: list[str] = []
        while True:
            if self.accept("("):
                parts.append(f"({self.read_dotted()})")
                self.expect(")")
            else:
                parts.append(self.read("name"))
            if not self.accept("."):
                return ".".join(parts)

    def _read_option_value(self) -> str | bytes | None:
        if self.peek() in _PARENTHESES:
            self._skip_to_end_of(self.read())
            return None
        if self.peek()[:1] in _QUOTES:
            return self.read_text()
        sign = "-" if self.accept("-") else ""
        return sign + self.read()


class _FileParser:
    """One file, from its first token to its last."""

    def __init__(self, reader: _Reader) -> None:
        self._reader = reader
        self._file = FileDescriptorProto()

    def parse(self) -> FileDescriptorProto:
        reader, file = self._reader, self._file
        while word := reader.peek():
            if word == "message":
                self._read_message(file.message_type.add(), depth=1)
            elif word == "enum":
                self._read_enum(file.enum_type.add())
            elif word == "syntax":
                self._read_syntax()
            elif word == "package":
                reader.read()
                file.package = reader.read_dotted()
                reader.expect(";")
            elif word == "import":
                self._read_import()
            elif word in ("option", "service", "extend"):
                reader.skip_statement()
            elif not reader.accept(";"):
                reader.read()
                raise reader.error(f"{word[:_SHOWN_MAX]!r} begins nothing that a .proto file can have")
        return file

    def _read_syntax(self) -> None:
        self._reader.read()
        self._reader.expect("=")
        syntax = self._reader.read_text().decode(errors="replace")
        if syntax not in ("proto2", "proto3"):
            raise self._reader.error(f"the syntax {syntax[:_SHOWN_MAX]!r} is neither proto2 nor proto3")
        self._reader.expect(";")
        self._file.syntax = syntax

    def _read_import(self) -> None:
        self._reader.read()
        is_public = self._reader.accept("public")
        if not is_public:
            self._reader.accept("weak")
        if is_public:
            self._file.public_dependency.append(len(self._file.dependency))
        self._file.dependency.append(self._reader.read_text().decode())
        self._reader.expect(";")

    def _read_message(self, message: DescriptorProto, *, depth: int) -> None:
        self._reader.expect("message")
        message.name = self._reader.read("name")
        self._read_body(message, depth=depth)

    def _read_body(self, message: DescriptorProto, *, depth: int) -> None:
        reader = self._reader
        if depth > PROTO_TEXT_DEPTH_MAX:
            raise reader.error(f"messages are more than {PROTO_TEXT_DEPTH_MAX} levels deep")
        entries: list[DescriptorProto] = []
        reader.expect("{")
        while not reader.accept("}"):
            word = reader.peek()
            if word == "message":
                self._read_message(message.nested_type.add(), depth=depth + 1)
            elif word == "enum":
                self._read_enum(message.enum_type.add())
            elif word == "oneof":
                self._read_oneof(message, depth=depth)
            elif word in ("option", "extend", "extensions", "reserved"):
                reader.skip_statement()
            elif word == "map" and reader.peek(1) == "<":
                entries.append(self._read_map(message))
            elif not reader.accept(";"):
                self._read_field(message, depth=depth)
        # A record's header counts messages without those of maps, as Java's serializer does.
        message.nested_type.extend(entries)
        self._add_lone_oneofs(message)

    def _read_oneof(self, message: DescriptorProto, *, depth: int) -> None:
        reader = self._reader
        reader.expect("oneof")
        index = len(message.oneof_decl)
        message.oneof_decl.add(name=reader.read("name"))
        reader.expect("{")
        while not reader.accept("}"):
            if reader.peek() == "option":
                reader.skip_statement()
            elif not reader.accept(";"):
                self._read_field(message, depth=depth).oneof_index = index

    def _read_field(self, message: DescriptorProto, *, depth: int) -> FieldDescriptorProto:
        reader, field = self._reader, message.field.add()
        label = reader.peek()
        field.label = _LABELS.get(label, FieldDescriptorProto.LABEL_OPTIONAL)
        if label in _LABELS:
            reader.read()
            if label == "optional" and self._file.syntax == "proto3":
                field.proto3_optional = True
        if reader.peek() == "group" and reader.peek(2) == "=":
            self._read_group(message, field, depth=depth)
            return field
        self._set_type(field, reader.read_dotted())
        field.name = reader.read("name")
        reader.expect("=")
        field.number = reader.read_integer()
        self._set_options(field)
        reader.expect(";")
        return field

    def _read_group(self, message: DescriptorProto, field: FieldDescriptorProto, *, depth: int) -> None:
        reader = self._reader
        reader.expect("group")
        name = reader.read("name")
        field.name, field.type_name, field.type = name.lower(), name, FieldDescriptorProto.TYPE_GROUP
        reader.expect("=")
        field.number = reader.read_integer()
        self._set_options(field)
        group = message.nested_type.add(name=name)
        self._read_body(group, depth=depth + 1)

    def _read_map(self, message: DescriptorProto) -> DescriptorProto:
        """Add the field, and give the message of its entries."""
        reader, field = self._reader, message.field.add()
        reader.expect("map")
        reader.expect("<")
        key_type = reader.read_dotted()
        reader.expect(",")
        value_type = reader.read_dotted()
        reader.expect(">")
        field.name = reader.read("name")
        entry = DescriptorProto(name=_entry_name(field.name))
        entry.options.map_entry = True
        for number, (name, kind) in enumerate((("key", key_type), ("value", value_type)), start=1):
            part = entry.field.add(name=name, number=number, label=FieldDescriptorProto.LABEL_OPTIONAL)
            self._set_type(part, kind)
        field.label, field.type = FieldDescriptorProto.LABEL_REPEATED, FieldDescriptorProto.TYPE_MESSAGE
        field.type_name = entry.name
        reader.expect("=")
        field.number = reader.read_integer()
        self._set_options(field)
        reader.expect(";")
        return entry

    def _set_type(self, field: FieldDescriptorProto, name: str) -> None:
        if name in _SCALARS:
            field.type = _SCALARS[name]
        else:
            field.type_name = name  # a message or an enum: the pool sees which

    def _set_options(self, field: FieldDescriptorProto) -> None:
        options = self._reader.read_options()
        json_name, default = options.get("json_name"), options.get("default")
        if isinstance(json_name, bytes):
            field.json_name = json_name.decode()
        if isinstance(default, bytes):
            is_text = field.type == FieldDescriptorProto.TYPE_STRING
            field.default_value = default.decode() if is_text else _escape(default)
        elif default is not None:
            field.default_value = _number_text(field, default)

    def _add_lone_oneofs(self, message: DescriptorProto) -> None:
        """Each optional field of proto3 is in a oneof of its own, behind those of the text."""
        for field in message.field:
            if field.proto3_optional:
                field.oneof_index = len(message.oneof_decl)
                message.oneof_decl.add(name=f"_{field.name}")

    def _read_enum(self, enum: EnumDescriptorProto) -> None:
        reader = self._reader
        reader.expect("enum")
        enum.name = reader.read("name")
        reader.expect("{")
        while not reader.accept("}"):
            if reader.peek() == "option" and reader.peek(2) == "=" and reader.peek(1) == "allow_alias":
                enum.options.allow_alias = reader.peek(3) == "true"
                reader.skip_statement()
            elif reader.peek() in ("option", "reserved") and reader.peek(1) != "=":
                reader.skip_statement()
            elif not reader.accept(";"):
                value = enum.value.add(name=reader.read("name"))
                reader.expect("=")
                value.number = reader.read_integer()
                reader.read_options()
                reader.expect(";")


def _entry_name(field_name: str) -> str:
    """As protoc names the message of a map's entries: CupSizesEntry for cup_sizes."""
    return "".join(part[:1].upper() + part[1:] for part in field_name.split("_")) + "Entry"


def _number_text(field: FieldDescriptorProto, text: str) -> str:
    """A default as descriptors have it: in decimal."""
    sign, digits = ("-", text[1:]) if text.startswith("-") else ("", text)
    if not digits[:1].isdigit() and not digits.startswith("."):
        return text  # true, inf, or the name of an enum's value
    if field.type in _FRACTIONS:
        return repr(float(text))
    return sign + str(int(digits, 8) if re.fullmatch("0[0-7]+", digits) else int(digits, 0))


def _unescape(text: str) -> bytes:
    """The bytes that a quoted text stands for."""
    found = bytearray()
    end = 0
    for match in _ESCAPE.finditer(text):
        found += text[end : match.start()].encode()
        end = match.end()
        byte_hex, octal, short, long, letter = match.groups()
        if byte_hex or octal:
            found.append((int(byte_hex, 16) if byte_hex else int(octal, 8)) & 0xFF)
        elif short or long:
            found += chr(int(short or long, 16)).encode("utf-8", "replace")
        else:
            found += _ESCAPED.get(letter, letter).encode()
    return bytes(found + text[end:].encode())


def _escape(data: bytes) -> str:
    """Bytes as a default has them in a descriptor."""
    return "".join(chr(one) if 32 <= one < 127 and one not in b"\\'\"" else f"\\{one:03o}" for one in data)
