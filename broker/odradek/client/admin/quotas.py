"""Client quotas: describe, set and remove (KIP-546)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from odradek.client.checked_calls import checking_arguments
from odradek.client.client import Client
from odradek.client.errors import raise_for
from odradek.foundation.client_entities import DEFAULT, ClientEntity
from odradek.wire.protocol.api import ApiKey

if TYPE_CHECKING:
    from odradek.wire.protocol.responses.clients import (
        AlterClientQuotasResponse,
        DescribeClientQuotasResponse,
    )

VERSIONS = (0, 1)
# The parts of an entity as the protocol names them, in the order of `ClientEntity`.
ENTITY_TYPES = ("user", "client-id", "ip")
_EXACT, _DEFAULT, _SPECIFIED = range(3)


@dataclass(frozen=True, slots=True)
class QuotaEntry:
    """The quotas of an entity, by key."""

    entity: ClientEntity
    values: Mapping[str, float]


@checking_arguments()
class QuotaAdmin:
    """The admin calls for client quotas."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def describe(
        self, entity: ClientEntity | None = None, *, is_strict: bool = False
    ) -> list[QuotaEntry]:
        """The quotas of all entities that have the parts of `entity`; with `is_strict`, no other parts.

        Without an entity, all quotas. Raises InvalidRequest for an address together with another part.
        """
        components = [
            {
                "entity_type": kind,
                "match_type": _DEFAULT if name == DEFAULT else _EXACT,
                "match": None if name == DEFAULT else name,
            }
            for kind, name in zip(ENTITY_TYPES, entity or ClientEntity(), strict=True)
            if name is not None
        ]
        answer: DescribeClientQuotasResponse = await self._client.ask(
            ApiKey.DESCRIBE_CLIENT_QUOTAS, VERSIONS, components=components, strict=is_strict
        )
        raise_for(answer.error_code, answer.error_message, about="quotas")
        found = [
            QuotaEntry(
                _entity([(part.entity_type, part.entity_name) for part in entry.entity]),
                {one.key: float(one.value) for one in entry.values},
            )
            for entry in answer.entries or ()
        ]
        return sorted(found, key=lambda entry: [(name is not None, name or "") for name in entry.entity])

    async def alter(
        self, entity: ClientEntity, values: Mapping[str, float | None], *, validate_only: bool = False
    ) -> None:
        """Set quotas by key, and remove those whose value is None: all or none. Raises InvalidRequest."""
        operations = [
            {"key": key, "value": 0.0 if value is None else float(value), "remove": value is None}
            for key, value in values.items()
        ]
        parts = [
            {"entity_type": kind, "entity_name": None if name == DEFAULT else name}
            for kind, name in zip(ENTITY_TYPES, entity, strict=True)
            if name is not None
        ]
        answer: AlterClientQuotasResponse = await self._client.ask(
            ApiKey.ALTER_CLIENT_QUOTAS,
            VERSIONS,
            entries=[{"entity": parts, "ops": operations}],
            validate_only=validate_only,
        )
        for result in answer.entries:
            raise_for(result.error_code, result.error_message, about=f"quotas of {entity}")


def _entity(parts: Sequence[tuple[str, str | None]]) -> ClientEntity:
    names = {kind: DEFAULT if name is None else str(name) for kind, name in parts}
    return ClientEntity(*(names.get(kind) for kind in ENTITY_TYPES))
