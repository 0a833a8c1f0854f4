"""Which quota counts for a client, and with whom the client shares it (KIP-55, KIP-546).

    1  user and client id                 of this client alone
    2  user and default client id         of this client alone
    3  user                               of all clients of the user
    4  default user and client id         of this client alone
    5  default user, default client id    of this client alone
    6  default user                       of all clients of the user
    7  client id                          of all users with this client id
    8  default client id                  of all users with this client id

Only the first level that has the wanted kind of quota counts. A client without an id has no quota by client id. Apache
Kafka: `ClientQuotaManager.DefaultQuotaCallback`.
"""

from __future__ import annotations

from collections.abc import Mapping

from odradek.broker.quotas.keys import QuotaKey, quota_values
from odradek.foundation.client_entities import DEFAULT, ClientEntity
from odradek.foundation.named_tuple import NamedTuple
from odradek.foundation.turn_limits import NODE_CHANGES_PER_TURN_MAX
from odradek.foundation.turns import Turn


class Share(NamedTuple):
    """Those that share a quota: a user, a client id, or a client id of a user. A part that does not matter is empty."""

    user: str
    client_id: str


class QuotaTable:
    """The quotas of one kind."""

    def __init__(self, limits: Mapping[ClientEntity, float]) -> None:
        self._limits = dict(limits)

    def __bool__(self) -> bool:
        return bool(self._limits)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, QuotaTable) and self._limits == other._limits

    __hash__ = None  # type: ignore[assignment]

    def find(self, user: str, client_id: str) -> tuple[Share, float] | None:
        """Those that share the quota of this client, and its value; None without a quota."""
        for name in (user, DEFAULT):
            if client_id:
                limit = self._first(ClientEntity(name, client_id), ClientEntity(name, DEFAULT))
                if limit is not None:
                    return Share(user, client_id), limit
            limit = self._first(ClientEntity(name))
            if limit is not None:
                return Share(user, ""), limit
        if client_id:
            limit = self._first(ClientEntity(client_id=client_id), ClientEntity(client_id=DEFAULT))
            if limit is not None:
                return Share("", client_id), limit
        return None

    def of_address(self, ip: str) -> float | None:
        """The quota of connections from an address."""
        return self._first(ClientEntity(ip=ip), ClientEntity(ip=DEFAULT))

    def _first(self, *entities: ClientEntity) -> float | None:
        """The quota of the first of these entities that has one."""
        return next((self._limits[entity] for entity in entities if entity in self._limits), None)


Limits = dict[QuotaKey, dict[ClientEntity, float]]


def quota_tables(configs: Mapping[ClientEntity, Mapping[str, str]]) -> dict[QuotaKey, QuotaTable]:
    """The table of each kind of quota, from the texts of the registry."""
    limits: Limits = {key: {} for key in QuotaKey}
    for entity, texts in configs.items():
        _add(limits, entity, texts)
    return {key: QuotaTable(found) for key, found in limits.items()}


async def quota_tables_in_turns(
    configs: Mapping[ClientEntity, Mapping[str, str]],
) -> dict[QuotaKey, QuotaTable]:
    """As `quota_tables`, some entities in each turn of the event loop."""
    limits: Limits = {key: {} for key in QuotaKey}
    turn = Turn(NODE_CHANGES_PER_TURN_MAX)
    for entity, texts in configs.items():
        if turn.is_over():
            await turn.next()
        _add(limits, entity, texts)
    return {key: QuotaTable(found) for key, found in limits.items()}


def _add(limits: Limits, entity: ClientEntity, texts: Mapping[str, str]) -> None:
    for key, value in quota_values(texts).items():
        if (key is QuotaKey.CONNECTION) == (entity.ip is not None):
            limits[key][entity] = value
