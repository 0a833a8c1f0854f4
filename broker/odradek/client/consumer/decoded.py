"""Records of a consumer that has a schema registry: their bytes as always, and what a schema makes of them.

Schemas are read when records arrive, and a value is decoded when the program asks for it. So a record that cannot be
decoded is an error of that record alone: the program has its bytes and the position behind it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple

from odradek.client.consumer.blocks import ConsumerRecord
from odradek.client.errors import SchemaUnavailable, UndecodableRecord
from odradek.client.schemas.header import HEADER_BYTES, Decode, Decoded, schema_id_of
from odradek.client.schemas.registry import SchemaRegistry
from odradek.foundation.errors import InvalidRequest, OdradekError

PARTS: Final = ("key", "value")


class _Decoders(NamedTuple):
    """By part: what decodes it, or why nothing does."""

    key: Decode | OdradekError
    value: Decode | OdradekError


class RecordWithSchemas(ConsumerRecord):
    """A record that decodes its key and value. It has a dict for `decoders`, as tuples have no room for more."""

    decoders: _Decoders

    @property
    def decoded_key(self) -> Decoded:
        return self._decode("key", self.key, self.decoders.key)

    @property
    def decoded_value(self) -> Decoded:
        return self._decode("value", self.value, self.decoders.value)

    def _decode(self, part: str, data: bytes | None, decode: Decode | OdradekError) -> Decoded:
        if data is None:
            return None
        about = f"the {part} of the record at offset {self.offset} of {self.topic}-{self.partition}"
        if isinstance(decode, OdradekError):
            raise type(decode)(f"{about} is not decoded: {decode}") from decode
        try:
            return decode(data[HEADER_BYTES:])
        except UndecodableRecord as failure:
            raise UndecodableRecord(
                f"{about} does not follow its schema {schema_id_of(data)}: {failure}"
            ) from failure
        except (
            Exception
        ) as failure:  # the decoders of three formats raise all kinds for bytes that are none of theirs
            raise UndecodableRecord(
                f"{about} does not follow its schema {schema_id_of(data)}: "
                f"{type(failure).__name__}: {str(failure)[:300]}"
            ) from failure


class RecordDecoding:
    """What a consumer does with its records. `parts` are those that a producer's serializers wrote: key, value."""

    def __init__(self, registry: SchemaRegistry, parts: Collection[str]) -> None:
        if isinstance(parts, str) or not parts or not set(parts) <= set(PARTS):
            raise InvalidRequest(f"schema_parts is {parts!r}; it can have 'key' and 'value'")
        self._registry = registry
        self._parts = frozenset(parts)
        self._left_out = InvalidRequest("the consumer's schema_parts does not name it")

    async def add_schemas(self, records: Sequence[ConsumerRecord]) -> list[ConsumerRecord]:
        """The records with what decodes them, once the registry was asked."""
        await self._registry.read(self._ids(records))
        return [self._with_decoders(record) for record in records]

    def add_known(self, record: ConsumerRecord) -> ConsumerRecord | None:
        """The record, where all that it needs is known; else None."""
        if any(self._registry.find(one) is None for one in self._ids((record,))):
            return None
        return self._with_decoders(record)

    def _ids(self, records: Iterable[ConsumerRecord]) -> set[int]:
        found: set[int | None] = set()
        if "key" in self._parts:
            found.update(schema_id_of(record.key) for record in records if record.key is not None)
        if "value" in self._parts:
            found.update(schema_id_of(record.value) for record in records if record.value is not None)
        return {one for one in found if one is not None}

    def _with_decoders(self, record: ConsumerRecord) -> ConsumerRecord:
        found = tuple.__new__(RecordWithSchemas, record)
        found.decoders = _Decoders(self._find("key", record.key), self._find("value", record.value))
        return found

    def _find(self, part: str, data: bytes | None) -> Decode | OdradekError:
        if part not in self._parts or data is None:
            return self._left_out
        schema_id = schema_id_of(data)
        if schema_id is None:
            return UndecodableRecord(
                "it does not begin with a schema registry's header, which is a zero byte and an id of four bytes"
            )
        return self._registry.find(schema_id) or SchemaUnavailable(
            f"schema {schema_id} was read and dropped again"
        )
