"""AlterClientQuotas: set and remove quotas (KIP-546). Each entity is changed whole or not at all."""

from __future__ import annotations

from collections.abc import Sequence

from odradek.broker.quotas.keys import build_valid_text, entity_of, is_quota_key
from odradek.broker.requests import change_log
from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.failures import error_fields
from odradek.broker.requests.long_answers import make_in_turns
from odradek.broker.requests.parts import AdminParts
from odradek.foundation.client_entities import ClientEntity
from odradek.foundation.error_values import without_trace
from odradek.foundation.errors import InvalidRequest, RequestError
from odradek.foundation.turns import Leftovers, Turn
from odradek.metadata.controller.client_configs import ClientConfigChange
from odradek.wire.protocol.messages import Message
from odradek.wire.protocol.requests.clients import AlterClientQuotasRequest, EntryData, OpData

# The types and names of an entity, in the order of their types.
Parts = tuple[tuple[str, str], ...]


async def handle(request: AlterClientQuotasRequest, context: RequestContext[AdminParts]) -> Message:
    async with Leftovers() as kept:
        # One that is named again is answered once, with its last error; what it asked for first is done, as in Kafka.
        outcomes: dict[Parts, tuple[EntryData, RequestError | None]] = kept.until_end({})
        changes: list[ClientConfigChange] = kept.until_end([])
        seen: set[ClientEntity] = kept.until_end(set())
        turn = Turn()
        for entry in request.entries:
            if turn.is_over():
                await turn.next()
            parts = tuple(sorted((part.entity_type, part.entity_name or "") for part in entry.entity))
            try:
                change = _change(entry)
                if change.entity in seen:
                    raise InvalidRequest(f"Ignoring duplicate entity: {change.entity}")
            except RequestError as error:
                outcomes[parts] = entry, without_trace(error)
                continue
            seen.add(change.entity)
            changes.append(change)
            outcomes[parts] = entry, None
        if changes and not request.validate_only:
            await context.broker.active_controller.change_client_configs(changes)
            for change in changes:
                if turn.is_over():
                    await turn.next()
                change_log.log_changed_quotas(context, change.entity, change.texts)
        return await make_in_turns(
            context,
            len(outcomes),
            lambda: context.response(entries=(_result(*outcome) for outcome in outcomes.values())),
        )


def _change(entry: EntryData) -> ClientConfigChange:
    entity = entity_of((part.entity_type, part.entity_name) for part in entry.entity)
    return ClientConfigChange(entity, _texts(entity, entry.ops))


def _texts(entity: ClientEntity, operations: Sequence[OpData]) -> dict[str, str | None]:
    texts: dict[str, str | None] = {}
    for one in operations:
        if one.key in texts:
            raise InvalidRequest(f"Duplicate quota key {one.key} not updated for {entity}")
        texts[one.key] = None if one.remove else build_valid_text(entity, one.key, one.value)
    # As in Kafka, an unknown key may be removed. Credentials in the same node stay.
    return {key: text for key, text in texts.items() if text is not None or is_quota_key(key)}


def _result(entry: EntryData, error: RequestError | None) -> dict[str, object]:
    return {
        **error_fields(error),
        "entity": [
            {"entity_type": part.entity_type, "entity_name": part.entity_name} for part in entry.entity
        ],
    }
