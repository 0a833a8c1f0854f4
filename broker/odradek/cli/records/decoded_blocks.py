"""Blocks of records whose values a schema registry explains: `consume --schema-registry`.

Values that begin with the registry's header become JSON; others stay as they are. A value that cannot be decoded stays
too, and stderr says why. A registry that fails as a whole ends the command, since no value could be decoded any more.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple, Self

import click

from odradek.cli.exit_codes import ExitCode, exit_code_for
from odradek.cli.records.json_lines import JsonText
from odradek.cli.shared.connection_settings import ClientSettings, Sourced
from odradek.cli.shared.output import print_error
from odradek.client.consumer.decoded import RecordDecoding
from odradek.client.errors import SchemaRegistryUnavailable, SchemaUnavailable, UndecodableRecord
from odradek.client.properties import (
    SCHEMA_REGISTRY_AUTHORITY,
    SCHEMA_REGISTRY_LOGIN,
    SCHEMA_REGISTRY_TOKEN,
)
from odradek.client.schemas.header import schema_id_of
from odradek.client.schemas.json_text import to_json
from odradek.client.schemas.registry import SchemaRegistry
from odradek.foundation.client_limits import DECODE_FAILURES_SHOWN_MAX
from odradek.foundation.errors import DependencyError, InvalidRequest, OdradekError, SettingError
from odradek.foundation.words import count

if TYPE_CHECKING:
    from odradek.client.consumer.blocks import ConsumerRecord, RecordBlock
    from odradek.wire.records.record import Record

REGISTRY_OPTION = "--schema-registry"
_REGISTRY_TIMEOUT_MS = 10_000


class DecodedBlock(NamedTuple):
    """A block to print. With `stopped_by` it is only the part before the record that the registry failed for."""

    block: RecordBlock
    stopped_by: OdradekError | None = None


def make_registry(url: Sourced, settings: ClientSettings, *, timeout_seconds: float | None) -> SchemaRegistry:
    """The registry at an address, with the login and the authority of the properties. Raises SettingError, and
    click.UsageError for the option.
    """
    login, token, ca_file = (
        settings.values[name].value if name in settings.values else None
        for name in (SCHEMA_REGISTRY_LOGIN, SCHEMA_REGISTRY_TOKEN, SCHEMA_REGISTRY_AUTHORITY)
    )
    user, _, password = login.partition(":") if login is not None else (None, "", None)
    try:
        return SchemaRegistry(
            url.value,
            user=user,
            password=password,
            token=token,
            ca_file=ca_file,
            timeout_ms=_REGISTRY_TIMEOUT_MS if timeout_seconds is None else round(timeout_seconds * 1000),
        )
    except InvalidRequest as failure:
        kind = click.UsageError if url.source == REGISTRY_OPTION else SettingError
        raise kind(f"{url.source}: {failure}") from failure


class BlockDecoding:
    """Decodes blocks in their order. Leaving it says on stderr how many keys and values were not decoded."""

    def __init__(self, registry: SchemaRegistry, parts: Collection[str]) -> None:
        self._decoding = RecordDecoding(registry, parts)
        self._parts = tuple(parts)
        self._failures = 0
        self._first_failure: OdradekError | None = None

    async def decode(self, block: RecordBlock) -> DecodedBlock:
        """The block with JSON in place of what a schema explains, once the registry was asked."""
        records = block.records()
        if not any(_has_header(getattr(one, part)) for one in records for part in self._parts):
            return DecodedBlock(block)
        found: list[Record] = []
        explained = await self._decoding.add_schemas(block.consumer_records())
        for record, with_schemas in zip(records, explained, strict=True):
            try:
                key = self._text("key", with_schemas)
                value = self._text("value", with_schemas)
            except (SchemaRegistryUnavailable, DependencyError) as failure:
                return DecodedBlock(block.with_records(found), _describe_end(failure, with_schemas))
            found.append(record._replace(key=key, value=value))
        return DecodedBlock(block.with_records(found))

    @property
    def exit_code(self) -> ExitCode:
        """That of the first key or value that was not decoded."""
        return ExitCode.OK if self._first_failure is None else exit_code_for(self._first_failure)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._failures:
            unseen = self._failures - DECODE_FAILURES_SHOWN_MAX
            rest = f", {unseen} of them without a message" if unseen > 0 else ""
            noun = self._parts[0] if len(self._parts) == 1 else "part"
            print_error(f"not decoded, and printed as written: {count(self._failures, noun)}{rest}")

    def _text(self, part: str, record: ConsumerRecord) -> bytes | None:
        """The part as JSON, or its bytes. Raises SchemaRegistryUnavailable and DependencyError."""
        data: bytes | None = getattr(record, part)
        if part not in self._parts or not _has_header(data):
            return data
        try:
            return JsonText(self._json_text(part, record))
        except SchemaRegistryUnavailable:
            raise
        except (SchemaUnavailable, UndecodableRecord) as failure:
            self._keep(failure)
            return data

    def _json_text(self, part: str, record: ConsumerRecord) -> bytes:
        decoded = record.decoded_key if part == "key" else record.decoded_value
        try:
            return to_json(decoded)
        except Exception as failure:  # a library's form in JSON refuses messages for reasons of its own
            raise UndecodableRecord(
                f"the {part} of the record at offset {record.offset} of {record.topic}-{record.partition} has no form "
                f"in JSON: {type(failure).__name__}: {str(failure)[:300]}"
            ) from failure

    def _keep(self, failure: OdradekError) -> None:
        self._failures += 1
        self._first_failure = self._first_failure or failure
        if self._failures <= DECODE_FAILURES_SHOWN_MAX:
            print_error(failure)


def _has_header(data: bytes | None) -> bool:
    return data is not None and schema_id_of(data) is not None


def _describe_end(failure: OdradekError, record: ConsumerRecord) -> OdradekError:
    """The failure of the registry itself, with where the output ends and what to do."""
    remedy = (
        "Install it"
        if isinstance(failure, DependencyError)
        else f"Start the registry, or correct its address ({REGISTRY_OPTION}) or its login ({SCHEMA_REGISTRY_LOGIN})"
    )
    return type(failure)(
        f"{failure.__cause__ or failure}. The output ends before offset {record.offset} of partition "
        f"{record.topic}-{record.partition}. {remedy}; {REGISTRY_OPTION} '' prints the bytes"
    )
