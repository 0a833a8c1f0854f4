"""Checks the users' arguments of the client: an error names the argument, its type and the remedy.

Keys, values and headers are bytes on the wire, and only the caller knows the encoding of a text. So a str is refused,
and nothing is encoded silently. A bytearray or memoryview is copied. These checks are off the hot path: the producer
calls them only for a part that is not plain bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import NoneType
from typing import Final, Literal, TypeVar

from odradek.foundation.errors import InvalidRequest
from odradek.foundation.words import kind_of
from odradek.wire.records.compression import Compression
from odradek.wire.records.record import Headers

Buffer = bytes | bytearray | memoryview
GivenHeaders = Sequence[tuple[str, Buffer | None]]
Acks = int | Literal["all", "-1", "0", "1"]
T = TypeVar("T")

_ACKS: Final = {"all": -1, "-1": -1, "0": 0, "1": 1}


def is_client_of(given: object, home: str) -> bool:
    """Whether `given` is a Client that a module in `home` defines; it is not imported to ask."""
    return type(given).__name__ == "Client" and type(given).__module__.startswith(home)


def topic_name(given: object, *, argument: str = "topic") -> str:
    """`given`, which has to be a name. Raises TypeError, and ValueError for an empty one."""
    if isinstance(given, str):
        if not given:
            raise ValueError(f"{argument} is empty; name a topic")
        return given
    remedy = (
        f"; write {bytes(given).decode(errors='replace')!r}" if isinstance(given, bytes | bytearray) else ""
    )
    raise TypeError(f"{argument} has to be a str, not {kind_of(given)}{remedy}")


def record_bytes_of(given: object, argument: str) -> bytes | None:
    """`given` as bytes, or None. Raises TypeError that names `argument`, and `.encode()` if that is the remedy."""
    if given is None or isinstance(given, bytes):
        return given
    if isinstance(given, bytearray | memoryview):
        return bytes(given)
    if isinstance(given, str):
        raise TypeError(f"{argument} has to be bytes, not a str; encode it: {argument}.encode()")
    as_text = "str" if isinstance(given, int | float) else "json.dumps"
    raise TypeError(
        f"{argument} has to be bytes, not {kind_of(given)}; encode it, for example: {as_text}({argument}).encode()"
    )


def record_parts(
    topic: object, value: object, key: object, headers: object
) -> tuple[bytes | None, bytes | None, Headers]:
    """(value, key, headers) as on the wire. Raises TypeError that names the mistake."""
    topic_name(topic)
    return record_bytes_of(value, "value"), record_bytes_of(key, "key"), header_pairs(headers)


def header_pairs(given: object) -> Headers:
    """Pairs of a name and bytes or None. Raises TypeError that names the header."""
    if isinstance(given, Mapping):
        raise TypeError(
            "headers have to be pairs, not a mapping, as a name may come twice; write list(headers.items())"
        )
    if not isinstance(given, Sequence) or isinstance(given, str | bytes | bytearray | memoryview):
        raise TypeError(f"headers have to be pairs like [('trace', b'1')], not {kind_of(given)}")
    return tuple(_header(index, pair) for index, pair in enumerate(given))


def all_record_bytes(given: Sequence[T], argument: str) -> Sequence[T] | list[bytes | None]:
    """`given` if all of it is bytes or None, else a list with copies. Raises TypeError that names the mistake."""
    if set(map(type, given)) <= {bytes, NoneType}:
        return given
    return [record_bytes_of(part, f"{argument}[{index}]") for index, part in enumerate(given)]


def find_compression(given: Compression | str) -> Compression:
    """A codec, given as itself or by its name: none, gzip, snappy, lz4, zstd. Raises InvalidRequest."""
    if isinstance(given, Compression):
        return given
    names = {codec.name.lower(): codec for codec in Compression}
    if given not in names:
        raise InvalidRequest(f"compression is {given!r}; it can be {', '.join(names)}")
    return names[given]


def find_acks(given: object) -> int:
    """The acknowledgements to wait for, by Kafka's names or numbers: 0, 1, -1 and all. Raises InvalidRequest."""
    if isinstance(given, bool) or not isinstance(given, int | str):
        raise TypeError(f"acks has to be 0, 1, -1 or 'all', not {kind_of(given)}")
    found = _ACKS.get(str(given).lower())
    if found is None:
        raise InvalidRequest(f"acks is {given!r}; it can be 0, 1 or 'all' (-1)")
    return found


def whole_number(given: object, argument: str) -> int:
    """`given`, which has to be an int. Raises TypeError."""
    if isinstance(given, int) and not isinstance(given, bool):
        return given
    raise TypeError(f"{argument} has to be an int, not {kind_of(given)}")


def config_text(given: str | float | bool | None) -> str | None:
    """A setting's value as on the wire: `60000`, `true`."""
    if isinstance(given, bool):
        return "true" if given else "false"
    return given if given is None or isinstance(given, str) else str(given)


def _header(index: int, pair: object) -> tuple[str, bytes | None]:
    if not isinstance(pair, Sequence) or isinstance(pair, str | bytes) or len(pair) != 2:
        raise TypeError(f"headers[{index}] has to be a pair like ('trace', b'1'), not {pair!r}")
    name, value = pair
    if not isinstance(name, str):
        raise TypeError(f"the name of headers[{index}] has to be a str, not {kind_of(name)}")
    if isinstance(value, str):
        raise TypeError(
            f"the value of header {name!r} has to be bytes, not a str; encode it: {value!r}.encode()"
        )
    return name, record_bytes_of(value, f"the value of header {name!r}")
