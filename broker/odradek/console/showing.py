"""Records as pages show them: values of a schema registry as JSON, others by their bytes, and nothing that masks hide.

A registry that does not answer costs a page no more than an error beside a record's hex. So does a record that does not
follow its schema. Where a topic has masks, such a record is hidden whole. Masks come first: what shows and searches
gets records without what they hide.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from odradek.client.consumer.blocks import ConsumerRecord
from odradek.client.schemas.header import HEADER_BYTES, schema_id_of
from odradek.client.schemas.json_text import to_json
from odradek.client.schemas.registry import SchemaRegistry
from odradek.console.decoders import AUTO, HEX, JSON, show_bytes
from odradek.console.masks import FieldMasks, MaskRules
from odradek.foundation.console_limits import (
    CONSOLE_DECODED_BYTES_MAX,
    CONSOLE_HEADER_BYTES_MAX,
    CONSOLE_HEADERS_MAX,
    CONSOLE_KEY_BYTES_MAX,
    CONSOLE_SCHEMAS_READ_MAX,
    CONSOLE_SCHEMAS_SECONDS_MAX,
    CONSOLE_VALUE_BYTES_MAX,
)
from odradek.foundation.errors import OdradekError

_DECODED_FORMS = (AUTO, JSON)
_ERROR_CHARACTERS_MAX = 300


class _Explained(NamedTuple):
    """What a schema made of bytes: JSON, or the reason why there is none."""

    schema_id: int
    json: bytes | None
    error: str | None = None


class RecordShowing:
    """How records of one cluster are shown. `registry` explains values that begin with its header."""

    def __init__(self, registry: SchemaRegistry | None = None, masks: MaskRules | None = None) -> None:
        self._registry = registry
        self._masks = masks or MaskRules()

    def is_masked(self, topic: str) -> bool:
        """Whether a part of a topic's records is hidden."""
        return bool(self._masks.find(topic))

    async def hide(self, records: Sequence[ConsumerRecord]) -> list[ConsumerRecord]:
        """The records with all that viewers may see of them. A value with a schema that has masks is its JSON."""
        masked = [one for one in records if self.is_masked(one.topic)]
        if not masked:
            return list(records)
        await self._read_schemas(part for one in masked for part in (one.key, one.value))
        found = []
        for record in records:
            found.append(self._hide(record))
            await asyncio.sleep(0)  # masks take a while, and other viewers have their turn
        return found

    async def show(
        self,
        records: Sequence[ConsumerRecord],
        form: str = AUTO,
        *,
        value_bytes_max: int = CONSOLE_VALUE_BYTES_MAX,
    ) -> list[dict[str, object]]:
        """The records as documents, in their order, without what masks hide."""
        records = await self.hide(records)
        if form in _DECODED_FORMS:
            await self._read_schemas(part for one in records for part in (one.key, one.value))
        shown = []
        for record in records:
            shown.append(self._show(record, form, value_bytes_max))
            await asyncio.sleep(0)  # decoding takes a while, and other viewers have their turn
        return shown

    def _show(self, record: ConsumerRecord, form: str, value_bytes_max: int) -> dict[str, object]:
        return {
            "partition": record.partition,
            "offset": record.offset,
            "timestamp_ms": record.timestamp_ms,
            "is_append_time": record.timestamp_type == 1,
            "key": self._show_part(record.key, form, CONSOLE_KEY_BYTES_MAX),
            "value": self._show_part(record.value, form, value_bytes_max),
            "headers": _show_headers(record.headers),
            "headers_total": len(record.headers),
        }

    def _show_part(self, data: bytes | None, form: str, bytes_max: int) -> dict[str, object] | None:
        if data is None:
            return None
        explained = self._explain(data) if form in _DECODED_FORMS else None
        if explained is None:
            return show_bytes(data, form, bytes_max=bytes_max)._asdict()
        if explained.json is None:
            shown = show_bytes(data, HEX, bytes_max=bytes_max)
            return {**shown._asdict(), "schema_id": explained.schema_id, "error": explained.error}
        shown = show_bytes(explained.json, JSON, bytes_max=bytes_max)
        return {**shown._asdict(), "size_bytes": len(data), "schema_id": explained.schema_id}

    # --- masks ----------------------------------------------------------------------------------------------------

    def _hide(self, record: ConsumerRecord) -> ConsumerRecord:
        masks = self._masks.find(record.topic)
        if not masks:
            return record
        return record._replace(
            key=self._hide_part(record.key, masks.key),
            value=self._hide_part(record.value, masks.value),
            headers=masks.hide_headers(record.headers),
        )

    def _hide_part(self, data: bytes | None, masks: FieldMasks) -> bytes | None:
        if data is None or not masks:
            return data
        explained = self._explain(data)
        # Bytes that were not decoded cannot be judged: they are hidden, since they are no JSON.
        return masks.hide(data if explained is None or explained.json is None else explained.json)

    # --- schemas --------------------------------------------------------------------------------------------------

    async def _read_schemas(self, parts: Iterable[bytes | None]) -> None:
        """Read the schemas that these need, within bounds: for one that was not read `_explain` has the reason."""
        if self._registry is None:
            return
        ids = {found for one in parts if (found := _find_schema_id(one)) is not None}
        unknown = [one for one in ids if self._registry.find(one) is None]
        try:
            async with asyncio.timeout(CONSOLE_SCHEMAS_SECONDS_MAX):
                await self._registry.read(unknown[:CONSOLE_SCHEMAS_READ_MAX])
        except TimeoutError:
            return

    def _explain(self, data: bytes) -> _Explained | None:
        """What its schema makes of bytes; None for those that name none, or where there is no registry."""
        schema_id = _find_schema_id(data)
        if self._registry is None or schema_id is None:
            return None
        decode = self._registry.find(schema_id)
        if decode is None:
            return _Explained(schema_id, None, f"schema {schema_id} was not read yet; look again")
        if isinstance(decode, OdradekError):
            return _Explained(schema_id, None, str(decode))
        if len(data) > CONSOLE_DECODED_BYTES_MAX:
            return _Explained(
                schema_id, None, f"it is larger than the {CONSOLE_DECODED_BYTES_MAX} bytes that are decoded"
            )
        try:
            return _Explained(schema_id, to_json(decode(data[HEADER_BYTES:])))
        except Exception as failure:  # the decoders of three formats raise all kinds
            words = str(failure)[:_ERROR_CHARACTERS_MAX]
            return _Explained(
                schema_id,
                None,
                f"it does not follow its schema {schema_id}: {type(failure).__name__}: {words}",
            )


def _find_schema_id(data: bytes | None) -> int | None:
    """The schema that bytes name; None for those that name none, as for a number of eight bytes, which begins with
    zeros.
    """
    return None if data is None else schema_id_of(data) or None


def _show_headers(headers: Sequence[tuple[str, bytes | None]]) -> list[dict[str, object]]:
    return [
        {
            "name": name[:CONSOLE_HEADER_BYTES_MAX],
            "value": None
            if value is None
            else show_bytes(value, AUTO, bytes_max=CONSOLE_HEADER_BYTES_MAX)._asdict(),
        }
        for name, value in headers[:CONSOLE_HEADERS_MAX]
    ]
