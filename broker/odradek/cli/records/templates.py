"""Records as lines, by a user's template in one of two styles. It is compiled once and formats a block at a time.

- Braces: `{partition}:{offset} {key} {value:>20}`. A newline follows each record; `{{` and `}}` are braces.
- kcat's: `%p:%o %k %s\\n`. Only the template's own text follows a record; `%%` is a percent sign.

A template with a known field in braces has the first style. Otherwise one with a percent sign has the second. One with
both is refused. Backslash sequences are `\\n \\r \\t \\\\`, `\\xHH` and `\\NNN` (octal) in both.

`plain_printer` has the lines of `consume` without a template: a value after the fields that options ask for.
`json_lines` has the other kind; `record_formats` reads lines for `produce`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from odradek.cli.shared.output import has_color
from odradek.cli.shared.times import format_moment
from odradek.foundation.words import nearest_name

if TYPE_CHECKING:
    from odradek.client.consumer.blocks import RecordBlock

NULL_ON_TERMINAL: Final = b"NULL"
_DIMMED: Final = b"\x1b[2m%b\x1b[0m"

Printer = Callable[["RecordBlock"], bytes]
Column = Callable[["RecordBlock"], Iterable[Any]]

_KCAT_NULL_HEADER: Final = b"NULL"
_ESCAPE: Final = r"\\(?:x[0-9a-fA-F]{1,2}|[0-7]{1,3}|.)"
_BRACES: Final = re.compile(
    rf"(?P<escape>{_ESCAPE})|(?P<brace>\{{\{{|\}}\}})|\{{(?P<field>[^{{}}]*)\}}", re.DOTALL
)
_TOKENS: Final = re.compile(rf"(?P<escape>{_ESCAPE})|%(?P<token>.?)", re.DOTALL)
_BEGUN: Final = re.compile(r"\{(?P<name>[a-z_]+)")
_LOOKS_LIKE_A_FIELD: Final = re.compile(r"\s*(?:[A-Za-z_].*)?", re.DOTALL)
_SPEC: Final = re.compile(
    r"(?:(?P<fill>.)?(?P<align>[<>^]))?(?P<width>[1-9]\d{0,2})?(?:\.(?P<longest>\d{1,4}))?"
)
_SPEC_HELP: Final = (
    "after the colon can stand a fill character, one of < > ^, a width below 1000 and .N for N characters"
)
_LETTERS: Final = {"n": b"\n", "r": b"\r", "t": b"\t", "\\": b"\\"}


class Field(NamedTuple):
    """A field that a template can show: its values in a block, and whether they are numbers."""

    column: Column
    is_number: bool = False
    needs_records: bool = True


def _null_as(null: bytes, column: Column) -> Column:
    def replace_missing(block: RecordBlock) -> list[bytes]:
        return [null if octets is None else octets for octets in column(block)]

    return replace_missing


def _size(octets: bytes | None) -> int:
    return -1 if octets is None else len(octets)


def _fields(null: bytes, null_header: bytes) -> dict[str, Field]:
    def headers(block: RecordBlock) -> list[bytes]:
        return [
            b",".join(
                name.encode() + b"=" + (null_header if value is None else value)
                for name, value in record.headers
            )
            for record in block.records()
        ]

    return {
        "key": Field(_null_as(null, lambda block: [record.key for record in block.records()])),
        "value": Field(_null_as(null, lambda block: block.values()), needs_records=False),
        "offset": Field(lambda block: [record.offset for record in block.records()], is_number=True),
        "partition": Field(
            lambda block: repeat(block.topic_partition.partition, block.record_count),
            is_number=True,
            needs_records=False,
        ),
        "topic": Field(
            lambda block: repeat(block.topic_partition.topic.encode(), block.record_count),
            needs_records=False,
        ),
        "timestamp": Field(
            lambda block: [format_moment(record.timestamp_ms).encode() for record in block.records()]
        ),
        "timestamp_ms": Field(
            lambda block: [record.timestamp_ms for record in block.records()], is_number=True
        ),
        "headers": Field(headers),
        "key_bytes": Field(lambda block: [_size(record.key) for record in block.records()], is_number=True),
        "value_bytes": Field(
            lambda block: list(map(_size, block.values())), is_number=True, needs_records=False
        ),
    }


FIELDS: Final = tuple(_fields(b"", b""))
_KCAT_FIELDS: Final = {
    "s": "value", "S": "value_bytes", "k": "key", "K": "key_bytes", "t": "topic", "p": "partition", "o": "offset",
    "T": "timestamp_ms", "h": "headers",
}  # fmt: skip
_KCAT_TOKENS: Final = " ".join(f"%{letter}" for letter in (*_KCAT_FIELDS, "R", "%"))


def compile_template(template: str, *, null: bytes = b"") -> Printer:
    """A function from a block of records to their lines. Null keys and values are printed as `null`. Raises ValueError
    for a wrong field, with the known ones.
    """
    known = [
        match for match in _BRACES.finditer(template) if (match["field"] or "").partition(":")[0] in FIELDS
    ]
    known = [match for match in known if match["field"]]
    tokens = [match for match in _TOKENS.finditer(template) if match["token"] in (*_KCAT_FIELDS, "R")]
    if known and tokens:
        raise ValueError(
            f"the template mixes {known[0][0]} with {tokens[0][0]}; "
            f"use fields in braces, or kcat's tokens ({_KCAT_TOKENS})"
        )
    if not known and "%" in template:
        return _of_tokens(template, _fields(null, _KCAT_NULL_HEADER))
    return _of_braces(template, _fields(null, null))


def _of_braces(template: str, fields: dict[str, Field]) -> Printer:
    line = _Line()
    end = 0
    for match in _BRACES.finditer(template):
        line.text(_without_field(template[end : match.start()]))
        end = match.end()
        if match["escape"]:
            line.literal(_unescape(match["escape"], unknown=match["escape"].encode()))
        elif match["brace"]:
            line.text(match["brace"][0])
        elif _LOOKS_LIKE_A_FIELD.fullmatch(match["field"]):
            name, _, spec = match["field"].partition(":")
            if name not in fields:
                raise ValueError(_unknown_field(match[0], name.strip()))
            line.field(_with_spec(fields[name], spec, shown=match[0]) if spec else fields[name])
        else:
            line.text(match[0])  # as in '{"a": 1}'
    line.text(_without_field(template[end:]) + "\n")
    return line.printer()


def _without_field(text: str) -> str:
    """The plain text. Raises ValueError for a field without its closing brace."""
    begun = _BEGUN.search(text)
    if begun is not None and begun["name"] in FIELDS:
        raise ValueError(f"{begun[0]} has no closing brace; write {begun[0]}}}, or {{{{ for a brace")
    return text


def _of_tokens(template: str, fields: dict[str, Field]) -> Printer:
    line = _Line()
    end = 0
    for match in _TOKENS.finditer(template):
        line.text(template[end : match.start()])
        end = match.end()
        if match["escape"]:
            line.literal(_unescape(match["escape"], unknown=match["escape"][1:].encode()))
        elif match["token"] == "%":
            line.text("%")
        elif match["token"] == "R":
            line.field(
                Field(
                    lambda block: [_size(value).to_bytes(4, "big", signed=True) for value in block.values()]
                )
            )
        elif match["token"] in _KCAT_FIELDS:
            line.field(fields[_KCAT_FIELDS[match["token"]]])
        else:
            raise ValueError(
                f"{match[0]} is not a token of kcat's; there are {_KCAT_TOKENS}, and fields in braces as {{key}}"
            )
    line.text(template[end:])
    return line.printer()


def _unescape(escape: str, *, unknown: bytes) -> bytes:
    letter = escape[1]
    if letter == "x" and len(escape) > 2:
        return bytes([int(escape[2:], 16)])
    if letter.isdigit() and letter < "8":
        return bytes([int(escape[1:], 8) & 0xFF])
    return _LETTERS.get(letter, unknown)


def _unknown_field(shown: str, name: str) -> str:
    nearest = nearest_name(name, FIELDS)
    hint = f"there are {', '.join(FIELDS)}." if nearest is None else f"did you mean {{{nearest}}}?"
    return f"{shown} is not a field of a record; {hint} Write {{{{ for a brace"


def _with_spec(field: Field, spec: str, *, shown: str) -> Field:
    """The field padded and truncated as in Python's format specifications: numbers to the right, text to the left."""
    match = _SPEC.fullmatch(spec)
    if match is None:
        raise ValueError(
            f"{shown} has a layout that is not understood; {_SPEC_HELP}, as {{key:>10}} or {{value:.80}}"
        )
    if field.is_number and match["longest"]:
        raise ValueError(f"{shown} would truncate a number; leave .{match['longest']} away")
    aligned = spec if match["align"] or not field.is_number else f">{spec}"

    def pad_texts(block: RecordBlock) -> list[bytes]:
        # By characters; bytes that are not UTF-8 count as one each and are printed as they are.
        texts = (
            str(shown) if field.is_number else shown.decode("utf-8", "surrogateescape")
            for shown in field.column(block)
        )
        return [format(text, aligned).encode("utf-8", "surrogateescape") for text in texts]

    return Field(pad_texts, needs_records=field.needs_records)


class _Line:
    """A line under construction: a format of bytes and the columns that fill it."""

    def __init__(self) -> None:
        self._format = b""
        self._fields: list[Field] = []

    def literal(self, octets: bytes) -> None:
        self._format += octets.replace(b"%", b"%%")

    def text(self, text: str) -> None:
        self.literal(text.encode("utf-8", "surrogateescape"))

    def field(self, field: Field) -> None:
        self._format += b"%d" if field.is_number else b"%b"
        self._fields.append(field)

    def printer(self) -> Printer:
        line = self._format
        columns = [field.column for field in self._fields]
        needs_records = any(field.needs_records for field in self._fields)
        if not columns:
            return lambda block: (line % ()) * block.record_count

        def lines(block: RecordBlock) -> bytes:
            if needs_records:
                block.records()  # once: the values are read from them
            return b"".join(map(line.__mod__, zip(*(column(block) for column in columns), strict=True)))

        return lines


def null_on_terminal() -> bytes:
    """The mark of a null key or value on a terminal, unlike an empty text or the text NULL."""
    return _DIMMED % NULL_ON_TERMINAL if has_color() else NULL_ON_TERMINAL


def plain_printer(
    *, keys: bool, headers: bool, offsets: bool, timestamps: bool, null: bytes = b""
) -> Printer:
    """The value of each record, after the wanted fields with a tab behind each."""
    wanted = (
        (timestamps, "{timestamp}"),
        (offsets, "{partition}:{offset}"),
        (headers, "{headers}"),
        (keys, "{key}"),
    )
    before = [field for is_wanted, field in wanted if is_wanted]
    if before:
        return compile_template("\t".join((*before, "{value}")), null=null)

    def values(block: RecordBlock) -> bytes:
        found = block.values()
        try:
            return b"\n".join((*found, b""))  # type: ignore[arg-type]
        except TypeError:  # a null
            return b"\n".join((*(null if value is None else value for value in found), b""))

    return values
