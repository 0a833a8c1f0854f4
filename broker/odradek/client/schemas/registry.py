"""A schema registry, as consumers are given one.

A schema never changes under its id, so each is read once and kept. One that could not be had is asked for again after
some seconds: a producer may register it in between.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeVar

from odradek.client.checked_calls import checking_arguments
from odradek.client.errors import SchemaRegistryUnavailable
from odradek.client.schemas.header import Decode
from odradek.foundation.client_limits import (
    SCHEMA_READS_AT_ONCE_MAX,
    SCHEMAS_KEPT_MAX,
    SCHEMAS_MISSING_KEPT_SECONDS,
)
from odradek.foundation.errors import InvalidRequest, OdradekError

if TYPE_CHECKING:
    from odradek.client.schemas.rest import SchemaReader

Kept = TypeVar("Kept")


@checking_arguments("__init__")
class SchemaRegistry:
    """`Consumer(client, "orders", schema_registry=SchemaRegistry("http://127.0.0.1:8081"))`. Consumers may share it.

    `url` is one address or several, parted by commas; they are asked in turn until one answers. A login is `user` and
    `password`, also within the address, or a `token`. `ca_file` is the PEM file of the registry's authority, where the
    system does not trust it. `timeout_ms` is for one schema with all that it refers to.

    Raises InvalidRequest for what can be no address, login or file. Each read has connections of its own, so a registry
    needs no close.
    """

    def __init__(
        self,
        url: str,
        *,
        user: str | None = None,
        password: str | None = None,
        token: str | None = None,
        ca_file: str | None = None,
        timeout_ms: int = 10_000,
    ) -> None:
        from odradek.client.schemas.rest import parse_address  # with aiohttp, which only such consumers need

        if (user is None) != (password is None) or (user is not None and token is not None):
            raise InvalidRequest("a schema registry takes a user with a password, or a token, or neither")
        login = None if user is None or password is None else (user, password)
        self._address = parse_address(url, login=login, token=token, ca_file=ca_file)
        self._timeout_seconds = timeout_ms / 1000
        self._known: dict[int, Decode] = {}
        self._missing: dict[int, tuple[float, OdradekError]] = {}

    def __repr__(self) -> str:
        return f"SchemaRegistry({','.join(self._address.urls)!r})"

    def find(self, schema_id: int) -> Decode | OdradekError | None:
        """What decodes values of a schema, or why it cannot be had; None until it is read."""
        found = self._known.get(schema_id)
        if found is not None:
            return found
        until, failure = self._missing.get(schema_id, (0.0, None))
        return failure if time.monotonic() < until else None

    async def read(self, schema_ids: Iterable[int]) -> None:
        """Read those of these schemas that are not known. `find` has the reason for one that cannot be had."""
        wanted = [one for one in dict.fromkeys(schema_ids) if self.find(one) is None]
        if not wanted:
            return
        from odradek.client.schemas.rest import SchemaReader

        at_once = asyncio.Semaphore(SCHEMA_READS_AT_ONCE_MAX)
        async with self._address.open_session() as session:
            readers = {one: SchemaReader(self._address, session, one) for one in wanted}
            await asyncio.gather(*(self._read_one(one, reader, at_once) for one, reader in readers.items()))

    async def _read_one(self, schema_id: int, reader: SchemaReader, at_once: asyncio.Semaphore) -> None:
        from odradek.client.schemas.decoding import make_decode

        try:
            async with at_once, asyncio.timeout(self._timeout_seconds):
                schema = await reader.read()
            # The largest schema takes half a second.
            decode = await asyncio.to_thread(make_decode, schema)
        except TimeoutError:
            reason = reader.last_failure or "no answer"
            self._keep_failure(
                schema_id,
                SchemaRegistryUnavailable(
                    f"schema {schema_id} was not read within {self._timeout_seconds:g} s: {reason}"
                ),
            )
        except OdradekError as failure:
            self._keep_failure(schema_id, failure)
        else:
            _make_room(self._known)
            self._known[schema_id] = decode

    def _keep_failure(self, schema_id: int, failure: OdradekError) -> None:
        self._missing.pop(schema_id, None)
        _make_room(self._missing)
        self._missing[schema_id] = (time.monotonic() + SCHEMAS_MISSING_KEPT_SECONDS, failure)


def registry_of(given: str | SchemaRegistry) -> SchemaRegistry:
    """The registry that a consumer was given, or one at the address that it was given."""
    return SchemaRegistry(given) if isinstance(given, str) else given


def _make_room(kept: dict[int, Kept]) -> None:
    while len(kept) >= SCHEMAS_KEPT_MAX:
        del kept[next(iter(kept))]
