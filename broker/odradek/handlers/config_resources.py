"""The kinds of resources that have settings, by their numbers on the wire, and what the three APIs for them share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import IntEnum
from typing import Any, Final

from odradek.cluster.image import ResourceKind
from odradek.controller.requests import Outcome, Resource
from odradek.foundation.errors import InvalidRequest
from odradek.handlers.errors import error_code, error_message


class ResourceType(IntEnum):
    """The numbers of the wire."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


_KINDS: Final = {
    ResourceType.TOPIC: ResourceKind.TOPIC,
    ResourceType.BROKER: ResourceKind.BROKER,
    ResourceType.GROUP: ResourceKind.GROUP,
}


def resource_of(resource_type: int, name: str) -> Resource:
    """The resource whose settings the controller keeps. Raises InvalidRequest for kinds that have none to change."""
    if resource_type == ResourceType.CLIENT_METRICS:
        raise InvalidRequest(
            "This broker takes no metrics from clients, so there are no subscriptions to set."
        )
    kind = _KINDS.get(resource_type)  # type: ignore[call-overload]
    if kind is None:
        raise InvalidRequest(f"Unknown resource type {resource_type}.")
    return Resource(kind, name)


def repeated_resources(resources: Iterable[Any]) -> frozenset[tuple[int, str]]:
    """Those that one request names more than once: which of the values counts could only be guessed."""
    counts = Counter((resource.resource_type, resource.resource_name) for resource in resources)
    return frozenset(key for key, count in counts.items() if count > 1)


def alteration_response(resource: Any, outcome: Outcome) -> dict[str, Any]:
    """The answer for one resource of AlterConfigs or IncrementalAlterConfigs."""
    return {
        "error_code": error_code(outcome),
        "error_message": error_message(outcome),
        "resource_type": resource.resource_type,
        "resource_name": resource.resource_name,
    }


def check_own_broker(name: str, own_id: int) -> None:
    """Raises InvalidRequest when a broker's loggers are asked for from another broker, or from none."""
    if name != str(own_id):
        raise InvalidRequest(
            f"Unexpected broker id, expected {own_id}, but received {name or 'an empty string'}; "
            "ask the broker whose loggers they are"
        )
