"""What `topics delete` would take away, and the deletion itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from odradek.cli.shared.output import count
from odradek.client.admin.logs import EARLIEST, LATEST, LogAdmin
from odradek.client.admin.topics import TopicAdmin
from odradek.client.client import Client
from odradek.client.suggestions import with_suggestions
from odradek.foundation.errors import OdradekError


@dataclass(frozen=True, slots=True)
class TopicToDelete:
    """The size of a topic. `records` counts offsets, which may have gaps, of the partitions that answer."""

    partitions: int
    records: int

    def __str__(self) -> str:
        return f"{count(self.partitions, 'partition')} with {count(self.records, 'record')}"


async def plan_deletions(client: Client, names: Sequence[str]) -> dict[str, TopicToDelete | OdradekError]:
    """The size of each topic, or the error for its name."""
    cluster = await client.with_retries(lambda: client.refresh(names))
    logs = LogAdmin(client)
    found: dict[str, TopicToDelete | OdradekError] = {}
    for name in dict.fromkeys(names):
        try:
            keys = cluster.partitions(name)
        except OdradekError as failure:
            found[name] = failure
            continue
        first, end = await logs.known_offsets_at(keys, EARLIEST), await logs.known_offsets_at(keys, LATEST)
        records = sum(end[key] - first[key] for key in keys if key in first and key in end)
        found[name] = TopicToDelete(len(keys), records)
    return found | await _add_suggestions(client, found)


async def delete_topics(client: Client, names: Sequence[str]) -> dict[str, OdradekError | None]:
    """None for each topic that is deleted, or the error for its name."""
    outcome = await TopicAdmin(client).delete_many(names)
    return outcome | await _add_suggestions(client, outcome)


async def _add_suggestions(client: Client, outcome: Mapping[str, object]) -> dict[str, OdradekError]:
    """The errors, with the names that are near."""
    failures = {name: one for name, one in outcome.items() if isinstance(one, OdradekError)}
    return dict(zip(failures, await with_suggestions(client, list(failures.values())), strict=True))
