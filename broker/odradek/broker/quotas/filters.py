"""Which entries DescribeClientQuotas names (KIP-546; Apache Kafka 4.1, `ClientQuotasImage.describe`)."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Final

from odradek.broker.quotas.keys import CLIENT_ID, ENTITY_TYPES, IP, USER
from odradek.foundation.client_entities import DEFAULT, ClientEntity
from odradek.foundation.errors import InvalidRequest, UnsupportedVersion
from odradek.foundation.named_tuple import NamedTuple

# Text from the wire never has it.
_NO_NAME: Final = "\ud800"


class Match(IntEnum):
    """The way in which a component of a filter compares a name; the numbers are the wire's."""

    EXACT = 0
    DEFAULT = 1
    SPECIFIED = 2


class FilterComponent(NamedTuple):
    """The condition of a filter on one part of an entity. `name` is for EXACT alone."""

    entity_type: str
    match: int
    name: str | None


class QuotaFilter:
    """The wanted name for each part of an entity; None where any name or the default will do."""

    def __init__(self, components: Iterable[FilterComponent], *, strict: bool) -> None:
        """With `strict`, entries with other parts do not match. Raises InvalidRequest, UnsupportedVersion."""
        self._strict = strict
        self._wanted: dict[str, str | None] = {}
        for component in components:
            self._wanted[self._check_type(component)] = _get_wanted_name(component)
        if IP in self._wanted and (USER in self._wanted or CLIENT_ID in self._wanted):
            raise InvalidRequest(
                "Invalid entity filter component combination. IP filter component should not be used with user or "
                "clientId filter component."
            )

    def _check_type(self, component: FilterComponent) -> str:
        kind = component.entity_type
        if not kind:
            raise InvalidRequest("Invalid empty entity type.")
        if kind in self._wanted:
            raise InvalidRequest(f"Entity type {kind} cannot appear more than once in the filter.")
        if kind not in ENTITY_TYPES:
            raise UnsupportedVersion(f"Unsupported entity type {kind}")
        return kind

    def matches(self, entity: ClientEntity) -> bool:
        """Whether the entry of `entity` is wanted."""
        names = {kind: name for kind, name in zip(ENTITY_TYPES, entity, strict=True) if name is not None}
        if self._strict and names.keys() != self._wanted.keys():
            return False
        return all(kind in names and name in (None, names[kind]) for kind, name in self._wanted.items())


def _get_wanted_name(component: FilterComponent) -> str | None:
    _, match, name = component
    if match == Match.EXACT:
        if name is None:
            raise InvalidRequest("Request specified MATCH_TYPE_EXACT, but set match string to null.")
        # No entry has this name; the default is asked for in another way.
        return name or _NO_NAME
    if match not in (Match.DEFAULT, Match.SPECIFIED):
        raise InvalidRequest(f"Unknown match type {match}")
    if name is not None:
        kind = Match(match).name
        raise InvalidRequest(f"Request specified MATCH_TYPE_{kind}, but also specified a match string.")
    return DEFAULT if match == Match.DEFAULT else None
