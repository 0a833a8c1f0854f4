"""Topics of the source at the target: which are mirrored, and their creation, growth and settings.

A topic is chosen by `topics` and `topics.exclude`, never an internal one or one that came from the target. It is
created with the settings that its original sets, and grown before more partitions are read. More partitions at the
target are fine. A topic that cannot be created or grown is reported, and the others continue.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from odradek.client.admin.configs import ConfigAdmin
from odradek.client.admin.topics import TopicAdmin
from odradek.client.client import Client
from odradek.client.results import (
    AlterOperation,
    ConfigChange,
    ConfigEntry,
    ConfigSource,
    ResourceType,
    TopicSpec,
)
from odradek.foundation.errors import (
    InvalidReplicationFactor,
    OdradekError,
    TopicAlreadyExists,
)
from odradek.foundation.ids import TopicPartition
from odradek.mirror.batch_passing import TargetRules
from odradek.mirror.naming import ReplicationPolicy, is_heartbeats, is_mirrorable
from odradek.mirror.settings import FlowSettings, Side
from odradek.wire.records.compression import Compression

MAX_MESSAGE_BYTES: Final = "max.message.bytes"
COMPRESSION_TYPE: Final = "compression.type"
MESSAGE_BYTES_DEFAULT: Final = 1_048_588
_CODECS: Final = {
    "uncompressed": Compression.NONE,
    "gzip": Compression.GZIP,
    "snappy": Compression.SNAPPY,
    "lz4": Compression.LZ4,
    "zstd": Compression.ZSTD,
}

OnTopicFailure = Callable[[str, OdradekError, str], None]


class MirroredTopic(NamedTuple):
    """A topic of the source, and its name at the target."""

    source: str
    target: str
    partitions: int
    id: uuid.UUID


class TopicSync:
    """The topics of one flow. `topics` are those that are ready at the target, by their names there."""

    def __init__(
        self,
        settings: FlowSettings,
        *,
        policy: ReplicationPolicy,
        source: Client,
        target: Client,
        on_failure: OnTopicFailure,
    ) -> None:
        self._settings = settings
        self._policy = policy
        self._source = TopicAdmin(source)
        self._target = TopicAdmin(target)
        self._source_configs = ConfigAdmin(source)
        self._target_configs = ConfigAdmin(target)
        self._on_failure = on_failure
        self.topics: dict[str, MirroredTopic] = {}

    async def choose_topics(self) -> list[MirroredTopic]:
        """The topics of the source that are to be mirrored, as they are now."""
        found: list[MirroredTopic] = []
        for topic in await self._source.list():
            if topic.error_code == 0 and not topic.is_internal and self._is_chosen(topic.name):
                target = self._policy.remote_topic(self._settings.source.alias, topic.name)
                found.append(MirroredTopic(topic.name, target, len(topic.partitions), topic.id))
        return found

    async def prepare(self) -> None:
        """Look at the source, and create and grow what is missing at the target."""
        chosen = await self.choose_topics()
        existing = {topic.name: len(topic.partitions) for topic in await self._target.list()}
        ready = {topic.target: topic for topic in chosen}
        await self._create([topic for topic in chosen if topic.target not in existing], ready)
        for topic in chosen:
            if existing.get(topic.target, topic.partitions) < topic.partitions:
                await self._grow(topic, existing[topic.target], ready)
        self.topics = ready

    async def rules(self, targets: Iterable[str]) -> dict[str, TargetRules]:
        """The batches that each of these topics of the target takes."""
        names = sorted(set(targets))
        found = await self._target_configs.describe_many(
            ResourceType.TOPIC, names, keys=[MAX_MESSAGE_BYTES, COMPRESSION_TYPE]
        )
        rules: dict[str, TargetRules] = {}
        for name in names:
            entries = found.get(name, [])
            if isinstance(entries, OdradekError):
                raise entries
            values = {entry.name: entry.value for entry in entries}
            rules[name] = TargetRules(
                int(values.get(MAX_MESSAGE_BYTES) or MESSAGE_BYTES_DEFAULT),
                _CODECS.get(values.get(COMPRESSION_TYPE) or ""),
            )
        return rules

    async def sync_configs(self) -> None:
        """Make the settings of the target's topics those of their originals, where they differ."""
        topics = list(self.topics.values())
        if not topics:
            return
        originals = await self._source_configs.describe_many(
            ResourceType.TOPIC, [one.source for one in topics]
        )
        copies = await self._target_configs.describe_many(ResourceType.TOPIC, [one.target for one in topics])
        changes: dict[str, list[ConfigChange]] = {}
        for topic in topics:
            original, copy = originals.get(topic.source), copies.get(topic.target)
            if isinstance(original, OdradekError) or isinstance(copy, OdradekError):
                self._on_failure(topic.target, _error_of(original, copy), "its settings cannot be compared")
            elif original is not None and copy is not None:
                changed = self._changes(original, copy)
                if changed:
                    changes[topic.target] = changed
        if changes:
            for name, failure in (await self._target_configs.alter_many(ResourceType.TOPIC, changes)).items():
                if failure is not None:
                    keys = ", ".join(change.name for change in changes[name])
                    self._on_failure(
                        name,
                        failure,
                        f"its settings cannot be changed ({keys}); add what the target does not take to "
                        "config.properties.exclude",
                    )

    def _is_chosen(self, name: str) -> bool:
        settings = self._settings
        aliases = {"source_alias": settings.source.alias, "target_alias": settings.target.alias}
        if not is_mirrorable(self._policy, name, **aliases):
            return False
        if is_heartbeats(self._policy, name):
            return settings.heartbeats_replication_enabled
        return settings.topics.matches(name) and not settings.topics_exclude.matches(name)

    async def _create(self, missing: list[MirroredTopic], ready: dict[str, MirroredTopic]) -> None:
        if not missing:
            return
        configs = await self._source_configs.describe_many(
            ResourceType.TOPIC, [one.source for one in missing]
        )
        specs: list[TopicSpec] = []
        for topic in missing:
            entries = configs.get(topic.source, [])
            wanted = {} if isinstance(entries, OdradekError) else self._select_mirrored(entries)
            specs.append(
                TopicSpec(topic.target, topic.partitions, self._settings.replication_factor, configs=wanted)
            )
        for name, outcome in (await self._target.create_many(specs)).items():
            if isinstance(outcome, OdradekError) and not isinstance(outcome, TopicAlreadyExists):
                ready.pop(name, None)
                self._on_failure(name, outcome, self._remedy(outcome))

    async def _grow(self, topic: MirroredTopic, existing: int, ready: dict[str, MirroredTopic]) -> None:
        try:
            await self._target.create_partitions(topic.target, total=topic.partitions)
        except OdradekError as failure:
            self._on_failure(topic.target, failure, f"it cannot grow to {topic.partitions} partitions")
            ready[topic.target] = topic._replace(partitions=existing)

    def _remedy(self, failure: OdradekError) -> str:
        if isinstance(failure, InvalidReplicationFactor):
            return (
                f"it cannot be created with replication.factor = {self._settings.replication_factor}; set one that the "
                "target's brokers can hold, or -1 for their default"
            )
        return "it cannot be created; create it at the target by hand, or leave it out by topics.exclude"

    def _select_mirrored(self, entries: Iterable[ConfigEntry]) -> dict[str, str | None]:
        return {entry.name: entry.value for entry in entries if self._is_mirrored(entry)}

    def _is_mirrored(self, entry: ConfigEntry) -> bool:
        if entry.is_read_only or entry.is_sensitive or entry.value is None:
            return False
        if self._settings.config_properties_exclude.matches(entry.name):
            return False
        return not entry.is_default or self._settings.use_defaults_from is Side.SOURCE

    def _changes(self, original: list[ConfigEntry], copy: list[ConfigEntry]) -> list[ConfigChange]:
        wanted = self._select_mirrored(original)
        known = {entry.name for entry in original}
        present = {entry.name: entry for entry in copy}
        changes = [
            ConfigChange(name, value)
            for name, value in wanted.items()
            if name not in present or present[name].value != value
        ]
        changes += [
            ConfigChange(name, None, AlterOperation.DELETE)
            for name, entry in present.items()
            if entry.source is ConfigSource.TOPIC
            and name in known
            and name not in wanted
            and not self._settings.config_properties_exclude.matches(name)
        ]
        return changes


def target_partitions(topics: Mapping[str, MirroredTopic]) -> list[TopicPartition]:
    """Every partition that is mirrored, by its name at the target."""
    return [
        TopicPartition(name, number)
        for name, topic in sorted(topics.items())
        for number in range(topic.partitions)
    ]


def _error_of(*found: list[ConfigEntry] | OdradekError | None) -> OdradekError:
    return next(one for one in found if isinstance(one, OdradekError))
