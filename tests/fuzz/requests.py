"""Requests that a schema allows and no sane client sends: every API and version, values chosen to hurt.

Values come from four sources: earlier answers, names and numbers with a meaning, the edges of each type, and noise.
Earlier answers give member ids, epochs, topic ids and offsets, so that requests get past the first check.
"""

from __future__ import annotations

import random
import struct
from collections import deque
from collections.abc import Callable
from dataclasses import fields as dataclass_fields
from dataclasses import is_dataclass
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from odradek.broker.requests.table import HANDLERS
from odradek.wire.protocol.api import ApiKey
from odradek.wire.protocol.codec import encode_request
from odradek.wire.protocol.reading import EPOCH
from odradek.wire.protocol.schema import REQUEST, STRUCTURE, FieldSchema, data_class, fields_of, message_class
from odradek.wire.protocol.writing import structure_writer
from tests.fuzz.damage import START_MS, changed, records

TOPICS: Final = ("plain", "compacted", "wide", "__consumer_offsets")
NAMES: Final = (
    *TOPICS, "nobody", "", ".", "..", "a/b", "../../etc", "x" * 249, "x" * 250, "\0", "a b", "\u4e16\u754c",
    "plain-0", "1", "2", "-1", "group", "other", "consumer", "range", "cooperative-sticky", "uniform",
)  # fmt: skip
CONFIGS: Final = (
    ("retention.ms", "1"), ("retention.bytes", "0"), ("segment.bytes", "1048576"), ("cleanup.policy", "compact"),
    ("cleanup.policy", "compact,delete"), ("cleanup.policy", ""), ("max.message.bytes", "0"),
    ("max.message.bytes", "-1"), ("compression.type", "zstd"), ("message.timestamp.type", "LogAppendTime"),
    ("min.insync.replicas", "2"), ("log.retention.ms", "x"), ("index.interval.bytes", "1"), ("nothing", ""),
    ("consumer.session.timeout.ms", "45000"), ("unclean.leader.election.enable", "maybe"),
    ("preallocate", "true"), ("retention.ms", "9" * 5000), ("retention.ms", "-9223372036854775808"),
    ("segment.ms", "1_0"), ("segment.ms", " 60000 "), ("message.timestamp.after.max.ms", "1"),
)  # fmt: skip
# Fields of other names for the same thing, in answers and in requests.
ALIASES: Final = {
    "topics": "name", "topic": "name", "topic_name": "name", "topic_names": "name", "resource_name": "name",
    "subscribed_topic_names": "name", "groups": "group_id", "group_ids": "group_id", "key": "group_id",
    "groups_names": "group_id", "coordinator_keys": "group_id", "topic_ids": "topic_id", "fetch_offset": "offset",
    "committed_offset": "offset", "high_watermark": "offset", "base_offset": "offset", "protocol_name": "name",
    "member_epoch": "epoch", "generation_id": "epoch", "generation_id_or_member_epoch": "epoch",
    "leader_epoch": "epoch", "session_epoch": "epoch", "current_leader_epoch": "epoch", "leader": "member_id",
    "partition": "partition_index", "partitions": "partition_index", "partition_indexes": "partition_index",
}  # fmt: skip
REMEMBERED_MAX: Final = 20
COUNT_FIELDS: Final = ("num_partitions", "count", "replication_factor")
# More partitions would only make the run slow.
COUNTS: Final = (-1, 0, 1, 2, 5, 10_001)
CLIENT_IDS: Final = ("fuzz", "", None, "\u017elu\u0165", "x" * 5000)


class RequestMaker:
    """Makes frames from one source of chance, and learns from the answers to them."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self._seen: dict[str, deque[Any]] = {}

    def request(self, correlation_id: int) -> tuple[ApiKey, int, bytes]:
        """(API, version, the whole frame of a request that the schema allows)."""
        chance = self.chance
        api_key = ApiKey(chance.choice(list(HANDLERS)))
        version = chance.randint(HANDLERS[api_key].version_min, HANDLERS[api_key].version_max)
        message = self._structure(message_class(api_key, version, REQUEST))
        return (
            api_key,
            version,
            encode_request(api_key, version, correlation_id, chance.choice(CLIENT_IDS), message),
        )

    def learn(self, message: Any) -> None:
        """Remember the values of an answer, by the names of their fields."""
        for field in dataclass_fields(message):
            value = getattr(message, field.name)
            for element in value if isinstance(value, tuple) else (value,):
                if is_dataclass(element):
                    self.learn(element)
                elif type(element) in (str, int, UUID):
                    name = ALIASES.get(field.name, field.name)
                    self._seen.setdefault(name, deque(maxlen=REMEMBERED_MAX)).append(element)

    # --- values --------------------------------------------------------------------------------------------

    def _structure(self, structure: Any) -> Any:
        return structure(**{field.name: self._field(field) for field in fields_of(structure)})

    def _field(self, field: FieldSchema) -> Any:
        chance = self.chance
        if field.is_nullable and field.tag is None and chance.random() < 0.12:
            return None
        if not field.is_array:
            return self._value(field)
        count = chance.choice((0, 1, 1, 1, 1, 2, 3)) if chance.random() < 0.99 else 100
        made = [self._value(field) for _ in range(count)]
        if made and chance.random() < 0.1:
            made.append(made[0])
        return tuple(made)

    def _value(self, field: FieldSchema) -> Any:
        if field.wire_type == STRUCTURE:
            return self._structure(field.structure)
        if field.name in COUNT_FIELDS:
            return self.chance.choice(COUNTS)
        seen = self._seen.get(ALIASES.get(field.name, field.name))
        if seen and self.chance.random() < 0.5:
            value = self.chance.choice(seen)
            if _fits(field.wire_type, value):
                return value
        return _MAKERS[field.wire_type](self, field)

    def _text(self, field: FieldSchema) -> str:
        chance = self.chance
        if field.name in ("value", "name", "config_name") and chance.random() < 0.4:
            return chance.choice(CONFIGS)[field.name == "value"]
        kind = chance.random()
        if kind < 0.5:
            return chance.choice(TOPICS)
        if kind < 0.9:
            return chance.choice(NAMES)
        return "".join(chr(chance.randrange(1, 0xD800)) for _ in range(chance.randrange(300)))

    def _integer(self, field: FieldSchema) -> int:
        chance = self.chance
        low, high = _RANGES[field.wire_type]
        kind = chance.random()
        if kind < 0.6:
            number = chance.choice((-1, 0, 0, 0, 1, 1, 2, 3))
        elif kind < 0.8:
            number = chance.choice((-2, -3, -4, 100, 1000, 60_000, 1 << 20, START_MS))
        elif kind < 0.9:
            number = chance.choice((low, high))
        else:
            number = chance.randint(low, high)
        return max(low, min(high, number))

    def _time(self, field: FieldSchema) -> Any:
        if field.is_nullable and self.chance.random() < 0.3:
            return None
        return EPOCH + timedelta(milliseconds=self.chance.choice((0, 1, START_MS, 1 << 42)))

    def _uuid(self, _: FieldSchema) -> UUID:
        return UUID(int=self.chance.choice((1, self.chance.getrandbits(128))))

    def _bytes(self, _: FieldSchema) -> bytes:
        """What group members send to each other through the broker, or noise."""
        chance = self.chance
        if chance.random() < 0.3:
            return chance.randbytes(chance.choice((0, 1, 5, 100)))
        name = chance.choice(("consumer_protocol_subscription", "consumer_protocol_assignment"))
        version = chance.randint(0, 3)
        out = bytearray(struct.pack(">h", version))
        structure = data_class(name, version)
        structure_writer(structure)(out, self._structure(structure))
        return changed(chance, bytes(out)) if chance.random() < 0.3 else bytes(out)

    def _records(self, _: FieldSchema) -> bytes:
        ids, epochs = self._seen.get("producer_id"), self._seen.get("producer_epoch")
        producer = (self.chance.choice(ids) if ids else 0, self.chance.choice(epochs) if epochs else 0)
        return records(self.chance, producer if _fits("int16", producer[1]) else (producer[0], 0))

    def _duration(self, field: FieldSchema) -> timedelta:
        milliseconds = self._integer(field)
        return timedelta(milliseconds=max(-(1 << 45), min(1 << 45, milliseconds)))


_RANGES: Final = {
    **{f"int{bits}": (-(1 << bits - 1), (1 << bits - 1) - 1) for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": (0, (1 << bits) - 1) for bits in (8, 16, 32, 64)},
    "timedelta_i32": (-(1 << 31), (1 << 31) - 1),
    "timedelta_i64": (-(1 << 63), (1 << 63) - 1),
}
_MAKERS: Final[dict[str, Callable[[RequestMaker, FieldSchema], Any]]] = {
    "bool": lambda maker, _: maker.chance.random() < 0.5,
    "float64": lambda maker, _: maker.chance.choice((0.0, -1.0, 1e300)),
    "string": RequestMaker._text,
    "bytes": RequestMaker._bytes,
    "records": RequestMaker._records,
    "uuid": RequestMaker._uuid,
    "datetime_i64": RequestMaker._time,
    "timedelta_i32": RequestMaker._duration,
    "timedelta_i64": RequestMaker._duration,
    **{f"int{bits}": RequestMaker._integer for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": RequestMaker._integer for bits in (8, 16, 32, 64)},
}


def _fits(wire_type: str, value: Any) -> bool:
    """Whether a value that some field of an answer had can be written as `wire_type`."""
    if wire_type in ("string", "uuid"):
        return isinstance(value, str if wire_type == "string" else UUID)
    if type(value) is not int or not wire_type.startswith(("int", "uint")):
        return False
    low, high = _RANGES[wire_type]
    return low <= value <= high
