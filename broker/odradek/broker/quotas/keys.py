"""The keys of quotas, and what AlterClientQuotas accepts (KIP-546; Apache Kafka 4.1, `ClientQuotaControlManager`).

    producer_byte_rate         bytes of Produce requests per second
    consumer_byte_rate         bytes of Fetch responses per second
    request_percentage         time of the event loop, where 100 is all of it
    controller_mutation_rate   partitions created and deleted per second
    connection_creation_rate   connections of an address per second

A difference from Kafka: an `ip` must be an address. Kafka also takes a name, which its controller looks up.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final

from odradek.foundation.client_entities import DEFAULT, ClientEntity
from odradek.foundation.errors import InvalidRequest
from odradek.foundation.settings.declaration import INT32_MAX

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
ENTITY_TYPES: Final = (USER, CLIENT_ID, IP)

_LONG_MAX: Final = 2.0**63
# A value above this part is a fraction, for a key that takes whole numbers.
_FRACTION_MAX: Final = 1e-6


class QuotaKey(StrEnum):
    """A kind of quota, as clients and the registry name it."""

    PRODUCE = "producer_byte_rate"
    FETCH = "consumer_byte_rate"
    REQUEST = "request_percentage"
    CONTROLLER_MUTATION = "controller_mutation_rate"
    CONNECTION = "connection_creation_rate"


CLIENT_KEYS: Final = (QuotaKey.PRODUCE, QuotaKey.FETCH, QuotaKey.REQUEST, QuotaKey.CONTROLLER_MUTATION)
_BY_NAME: Final = {str(key): key for key in QuotaKey}
# The largest value and its type, for keys that take whole numbers.
_WHOLE: Final = {
    QuotaKey.PRODUCE: (_LONG_MAX, "LONG"),
    QuotaKey.FETCH: (_LONG_MAX, "LONG"),
    QuotaKey.CONNECTION: (float(INT32_MAX), "INT"),
}


def is_quota_key(name: str) -> bool:
    """Whether this is the name of a quota, and not of a credential."""
    return name in _BY_NAME


def entity_of(parts: Iterable[tuple[str, str | None]]) -> ClientEntity:
    """The entity of a request, from (type, name) with None for the default. Raises InvalidRequest."""
    names: dict[str, str] = {}
    for kind, name in parts:
        if kind in names:
            raise InvalidRequest(f"Invalid client quota entity, entity has duplicate entity type: {kind}")
        if kind not in ENTITY_TYPES:
            raise InvalidRequest(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise InvalidRequest(f"Empty {kind} not supported")
        names[kind] = DEFAULT if name is None else name
    if not names or (IP in names and len(names) > 1):
        raise InvalidRequest("Invalid empty client quota entity")
    ip = names.get(IP)
    if ip:
        ip = address_text(ip)
    return ClientEntity(names.get(USER), names.get(CLIENT_ID), ip)


def parts_of(entity: ClientEntity) -> list[tuple[str, str | None]]:
    """The inverse of `entity_of`."""
    return [
        (kind, None if name == DEFAULT else name)
        for kind, name in zip(ENTITY_TYPES, entity, strict=True)
        if name is not None
    ]


def address_text(ip: str) -> str:
    """The one text of an address: IPv4 within IPv6 is IPv4. Raises InvalidRequest."""
    from ipaddress import ip_address

    try:
        address = ip_address(ip)
    except ValueError:
        raise InvalidRequest(f"{ip} is not a valid IP address; names of hosts are not looked up") from None
    return str(getattr(address, "ipv4_mapped", None) or address)


def build_valid_text(entity: ClientEntity, name: str, value: float) -> str:
    """The text to store for a value of a key. Raises InvalidRequest."""
    key = _BY_NAME.get(name)
    if key is None or (key is QuotaKey.CONNECTION) != (entity.ip is not None):
        raise InvalidRequest(f"Invalid configuration key {name}")
    if not value > 0:
        raise InvalidRequest(f"Quota {name} must be greater than 0")
    if key not in _WHOLE:
        return "Infinity" if math.isinf(value) else repr(float(value))
    largest, kind = _WHOLE[key]
    if value > largest:
        raise InvalidRequest(f"Proposed value for {name} is too large for a {kind}.")
    if math.fmod(value, 1.0) > _FRACTION_MAX:
        raise InvalidRequest(f"{name} cannot be a fractional value.")
    return str(min(int(value), int(largest) - (kind == "LONG")))


def quota_values(texts: Mapping[str, str]) -> dict[QuotaKey, float]:
    """The quotas among the texts of an entity. A text that is no number, from elsewhere, is left out."""
    values: dict[QuotaKey, float] = {}
    for name, text in texts.items():
        key = _BY_NAME.get(name)
        if key is None:
            continue
        try:
            value = float(text)
        except ValueError:
            continue
        if value > 0:
            values[key] = value
    return values
