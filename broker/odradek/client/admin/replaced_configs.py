"""Changes of single configs at a broker before Kafka 2.3, which can only replace all configs of a resource.

So the configs in force are read, changed here and written as a whole. Two programs that do so at the same time may undo
each other's change, and the broker cannot prevent it. KIP-339 gave newer ones single changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from odradek.client.admin.results import AlterOperation, ConfigChange, ConfigEntry, ConfigSource, ResourceType
from odradek.client.errors import UnsupportedByBroker

_OWN: Final = {ResourceType.TOPIC: ConfigSource.TOPIC, ResourceType.BROKER: ConfigSource.DYNAMIC_BROKER}


def replaced_values(
    resource_type: ResourceType, name: str, entries: Iterable[ConfigEntry], changes: Sequence[ConfigChange]
) -> dict[str, str | None]:
    """All own configs of a resource after the changes. Raises UnsupportedByBroker for what cannot be replaced."""
    source = _OWN.get(resource_type)
    if source is None or not name:
        raise UnsupportedByBroker(
            f"the broker is older than Kafka 2.3, which changes configs of topics and single brokers only, not of "
            f"{resource_type.name.lower().replace('_', ' ')} {name!r}"
        )
    in_force = {entry.name: entry.value for entry in entries}
    values: dict[str, str | None] = {}
    for entry in entries:
        if entry.source is source:
            if entry.is_sensitive:
                raise UnsupportedByBroker(
                    f"the broker is older than Kafka 2.3: a change there would lose {entry.name}, whose value it hides"
                )
            values[entry.name] = entry.value
    for change in changes:
        if change.operation is AlterOperation.DELETE:
            values.pop(change.name, None)
        elif change.operation is AlterOperation.SET:
            values[change.name] = change.value
        else:
            parts = [part for part in (in_force.get(change.name) or "").split(",") if part]
            given = [part for part in (change.value or "").split(",") if part]
            parts = [part for part in parts if part not in given]
            values[change.name] = ",".join(parts + given * (change.operation is AlterOperation.APPEND))
    return values
