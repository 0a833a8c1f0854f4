"""Writes `wire.protocol.requests` and `wire.protocol.responses`: the types of messages, from kio's classes of all their
versions.

A type has the fields of every version. Where a version lacks one, a request has the schema's default, of the newest
version that has it. So a handler reads any field of any version, and mypy knows its type. A response has the fields of
its version alone: its type is for mypy, and no process loads it.

`python -m odradek.broker.requests.request_types` writes the modules, and a test compares them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final, cast

from odradek.broker.requests.table import CONTROLLER_HANDLERS, HANDLERS, TELEMETRY_HANDLERS
from odradek.wire.protocol import requests, responses
from odradek.wire.protocol.api import ApiKey
from odradek.wire.protocol.reading import EPOCH, default_of
from odradek.wire.protocol.requests import module_of
from odradek.wire.protocol.schema import (
    REQUEST,
    RESPONSE,
    STRUCTURE,
    FieldSchema,
    Structure,
    fields_of,
    message_class,
    versions_of,
)

_ALL: Final = {**HANDLERS, **TELEMETRY_HANDLERS, **CONTROLLER_HANDLERS}
HOME: Final = Path(requests.__file__).parent
RESPONSES_HOME: Final = Path(responses.__file__).parent
_HEAD: Final = '''"""Requests of {what}, as handlers read them.

Written by `odradek.broker.requests.request_types`; edits are lost.
"""'''
_RESPONSES_HEAD: Final = '''"""Responses about {what}, for mypy alone.

Written by `odradek.broker.requests.request_types`; edits are lost.
"""'''
_MODULES: Final = (
    ("groups", "groups"),
    ("streams", "Streams groups"),
    ("transactions", "transactions"),
    ("clients", "users and clients"),
    ("cluster", "topics, logs and the cluster"),
    ("shares", "share groups"),
)
# Responses have one module more.
_RECORDS: Final = frozenset(
    (
        ApiKey.PRODUCE,
        ApiKey.FETCH,
        ApiKey.LIST_OFFSETS,
        ApiKey.DELETE_RECORDS,
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        ApiKey.DESCRIBE_PRODUCERS,
    )
)
_TYPES: Final = {
    "bool": "bool",
    "string": "str",
    "bytes": "bytes",
    "records": "bytes",
    "uuid": "UUID",
    "float64": "float",
    "timedelta_i32": "timedelta | int",
    "timedelta_i64": "timedelta | int",
    "datetime_i64": "datetime | int",
}
# Classes of the product: those of Kafka's structures have longer names.
_OF_THE_PRODUCT: Final = frozenset(("Endpoint", "TopicInfo", "TopicPartition"))
# kio's type is None for the zero of these.
_NONE_FOR_ZERO: Final = ("uuid", "datetime_i64")


def modules() -> dict[str, str]:
    """The source of each module, by its name in `wire.protocol.requests`."""
    handlers = _ALL
    decoded = [ApiKey(api) for api in sorted(handlers) if not handlers[api].takes_frame]
    taken = set(_OF_THE_PRODUCT)
    return {
        name: _module(what, [api for api in decoded if module_of(api) == name], taken)
        for name, what in _MODULES
    }


def response_modules() -> dict[str, str]:
    """The source of each module, by its name in `wire.protocol.responses`."""
    apis = [ApiKey(api) for api in sorted(_ALL)]
    taken = set(_OF_THE_PRODUCT)
    return {
        name: _response_module(
            what, [api for api in apis if ("records" if api in _RECORDS else module_of(api)) == name], taken
        )
        for name, what in (*_MODULES, ("records", "records and their offsets"))
    }


def _response_module(what: str, apis: Sequence[ApiKey], taken: set[str]) -> str:
    written: dict[str, list[str]] = {}
    for api in apis:
        _write(api, _classes(api, RESPONSE), written, taken, base="(Response)")
    body = ["from odradek.wire.protocol.responses import Response", "", ""]
    body += [line for lines in written.values() for line in lines]
    return _source(_RESPONSES_HEAD.format(what=what), [], body)


def _module(what: str, apis: Sequence[ApiKey], taken: set[str]) -> str:
    """The source of a module with the requests of `apis`; its classes avoid the names `taken`, and add theirs."""
    written: dict[str, list[str]] = {}
    roots = [(api, _write(api, _classes(api, REQUEST), written, taken)) for api in apis]
    body = ["from odradek.wire.protocol.api import ApiKey", "", ""]
    body += [line for lines in written.values() for line in lines]
    body += ["TYPES: Final[dict[int, type]] = {"]
    body += [f"    ApiKey.{api.name}: {name}," for api, name in roots]
    return _source(_HEAD.format(what=what), ["from typing import ClassVar, Final"], [*body, "}"])


def _source(head: str, imports: Sequence[str], body: Sequence[str]) -> str:
    text = "\n".join(body)
    times = [name for name in ("datetime", "timedelta") if f"{name} " in text or f"{name}(" in text]
    lines = [head, "", "from __future__ import annotations", ""]
    lines += [f"from datetime import {', '.join(times)}"] if times else []
    lines += imports
    lines += ["from uuid import UUID"] if "UUID" in text else []
    return "\n".join([*lines, "", text]).rstrip() + "\n"


def _classes(api: ApiKey, kind: str) -> list[Structure]:
    """kio's classes of all versions, newest first."""
    return [message_class(api, version, kind) for version in reversed(versions_of(api))]


def _write(
    api: ApiKey,
    classes: Sequence[Structure],
    written: dict[str, list[str]],
    taken: set[str],
    *,
    base: str = "",
) -> str:
    """Write the class that has the fields of `classes`, after those that it is made of; gives its name.

    With a `base` it is the type of a response: it gives mypy the fields, and no process loads it.
    """
    name = cast(type, classes[0]).__name__
    if name in taken:
        name = _join_names(api.kafka_name, name)
        if name in written:
            return name  # the same structure in another field
    taken.add(name)
    by_version = [{field.name: field for field in fields_of(one)} for one in classes]
    names = dict.fromkeys(field for fields in by_version for field in fields)
    nested: dict[str, str] = {}
    rows: list[str] = []
    for field_name in names:
        found = [fields[field_name] for fields in by_version if field_name in fields]
        if found[0].wire_type == STRUCTURE:
            nested[field_name] = _write(api, [one.structure for one in found], written, taken, base=base)
        declared = _declare_type(found, nested.get(field_name))
        has_default = not base and len(found) < len(classes)
        rows.append(f"    {field_name}: {declared}" + (f" = {_default(found[0])}" if has_default else ""))
    lines = [f"class {name}{base}:"] if base else [f"class {name}:", "    __slots__ = ()"]
    if nested and not base:
        pairs = ", ".join(f'"{field}": {of}' for field, of in nested.items())
        lines.append(f"    nested: ClassVar[dict[str, type]] = {{{pairs}}}")
    written[name] = [*lines, *rows, "", ""]
    return name


def _join_names(prefix: str, name: str) -> str:
    """Both names joined; where the first ends as the second begins, the common part is written once."""
    overlap = max(size for size in range(len(name)) if size == 0 or prefix.endswith(name[:size]))
    return prefix + name[overlap:]


def _declare_type(found: Sequence[FieldSchema], nested: str | None) -> str:
    first = found[0]
    declared = nested or _TYPES.get(first.wire_type, "int")
    is_nullable = any(field.is_nullable for field in found) or default_of(first) is None
    if first.is_array:
        if first.wire_type in _NONE_FOR_ZERO:
            declared += " | None"
        return f"tuple[{declared}, ...]" + (" | None" if is_nullable else "")
    return declared + (" | None" if is_nullable or first.wire_type in _NONE_FOR_ZERO else "")


def _default(field: FieldSchema) -> str:
    value = default_of(field)
    if isinstance(value, timedelta):
        return f"timedelta(milliseconds={value // timedelta(milliseconds=1)})"
    if isinstance(value, datetime):
        return f"datetime.fromtimestamp({int((value - EPOCH).total_seconds())}, UTC)"
    assert value is None or isinstance(value, bool | int | str | bytes | tuple), field
    return repr(value)


def _write_all() -> Iterator[Path]:
    for home, sources in ((HOME, modules()), (RESPONSES_HOME, response_modules())):
        for name, source in sources.items():
            path = home / f"{name}.py"
            path.write_text(source)
            yield path


if __name__ == "__main__":
    for written_path in _write_all():
        print(written_path)
