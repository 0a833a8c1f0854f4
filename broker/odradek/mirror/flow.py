"""One flow: the topics of one source, mirrored into the target. Joins the parts, and does what is done now and then.

Mirrors that would copy records in a loop are refused. MirrorMaker sees a loop by the target's alias in a topic's name.
That fails where two aliases are one cluster, and where names are kept. So clusters are compared by their ids. Where
names are kept, the source is asked for mirrors that write to it: their positions name the cluster that they read.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from odradek.client.admin.acls import AclAdmin
from odradek.client.admin.groups import GroupAdmin
from odradek.client.admin.logs import LATEST, LogAdmin
from odradek.client.client import Client
from odradek.client.errors import UnsupportedByBroker
from odradek.client.results import ListedOffset
from odradek.foundation.errors import OdradekError
from odradek.foundation.ids import TopicPartition
from odradek.foundation.mirror_limits import MIRROR_ENDS_SECONDS
from odradek.foundation.security_errors import SecurityDisabled
from odradek.foundation.tasks import TaskOwner
from odradek.mirror.bandwidth import Bandwidth
from odradek.mirror.clients import client_of
from odradek.mirror.copying import FlowParts
from odradek.mirror.counters import FlowCounters
from odradek.mirror.errors import MirrorRefused, PartitionStopped
from odradek.mirror.flow_positions import OffsetTranslation
from odradek.mirror.heartbeats import Heartbeats
from odradek.mirror.naming import IdentityReplicationPolicy, ReplicationPolicy, is_heartbeats
from odradek.mirror.positions import source_cluster
from odradek.mirror.settings import GROUP_PREFIX, IDENTITY_POLICY, FlowSettings
from odradek.mirror.source_reader import SourceReader
from odradek.mirror.topic_sync import MirroredTopic, TopicSync
from odradek.mirror.worker import Worker, WorkerState
from odradek.security.authorization.acls import (
    AclBinding,
    AclOperation,
    AclResourceType,
    PatternType,
    PermissionType,
)
from odradek.security.authorization.filters import AclFilter

logger = logging.getLogger(__name__)

_MS_PER_SECOND: Final = 1000


def policy_of(settings: FlowSettings) -> ReplicationPolicy:
    """The rule that names topics of this flow at the target."""
    separator = settings.replication_policy_separator
    is_internal = settings.replication_policy_internal_separator_enabled
    if settings.replication_policy_class == IDENTITY_POLICY:
        return IdentityReplicationPolicy(separator, is_internal, known_source_alias=settings.source.alias)
    return ReplicationPolicy(separator, is_internal)


class Flow:
    """`run` mirrors until `stop`. It raises MirrorRefused alone: every other error is tried again."""

    def __init__(
        self,
        settings: FlowSettings,
        *,
        group_id: str,
        target: Client,
        bandwidth: Bandwidth,
        reverse: FlowSettings | None = None,
        on_state: Callable[[], None],
    ) -> None:
        self.settings = settings
        self.policy = policy_of(settings)
        self.counters = FlowCounters(settings.source.alias, wall_ms=lambda: time.time_ns() // 1_000_000)
        self._on_state = on_state
        self._state = WorkerState.STARTING
        self._target = target
        self._source = client_of(settings.source)
        self.topics = TopicSync(
            settings, policy=self.policy, source=self._source, target=target, on_failure=self._topic_failed
        )
        reader = SourceReader(
            self._source,
            bandwidth=bandwidth,
            stop=self._stop_partition,
            on_failure=self._read_failed,
            on_end=lambda key, end_offset: self.counters.at(key, end_offset=end_offset),
        )
        self._reader = reader
        self._ends = SourceEnds(self._source, self.counters)
        self._acls = AclSync(source=self._source, target=target)
        self._offsets = OffsetTranslation(
            self._source,
            target,
            settings=settings,
            policy=self.policy,
            counters=self.counters,
            is_leader=lambda: self.is_leader,
            is_current=lambda: self._worker.is_current,
        )
        self._has_offsets = False
        self._reverse_heartbeats: Heartbeats | None = None
        if reverse is not None:
            self._reverse_heartbeats = Heartbeats(
                self._source,
                settings=reverse,
                policy=self.policy,
                counters=self.counters,
                is_leader=lambda: self.is_leader,
            )
        self._is_checked = False
        self._tasks = TaskOwner(f"flow {settings.label}")
        self._worker = Worker(
            FlowParts(
                settings=settings,
                group_id=group_id,
                source=self._source,
                target=target,
                topics=self.topics,
                reader=reader,
                counters=self.counters,
                listeners=[self.counters, self._offsets],
                begin=self._offsets.begin,
                is_renewable=lambda topic: is_heartbeats(self.policy, topic),
            ),
            prepare_topics=self._prepare,
            on_state=self._set_state,
        )

    @property
    def label(self) -> str:
        """`source->target`."""
        return self.settings.label

    @property
    def state(self) -> str:
        """The present state of the flow: starting, running, waiting (for its next try), failed or stopped."""
        return self._state.value

    @property
    def is_leader(self) -> bool:
        """Whether this worker does what one worker of a flow does."""
        return self._state is WorkerState.RUNNING and self._worker.is_leader

    def not_ready(self) -> str | None:
        """Why the flow does not mirror at the moment; None if it does."""
        if self._state is WorkerState.RUNNING:
            return None
        last = self.counters.last_error
        return f"{self.label} is {self.state}" + (f": {last.text}" if last is not None else "")

    def stop(self) -> None:
        """End after the open transaction."""
        self._worker.stop()

    async def plan(self) -> list[MirroredTopic]:
        """The topics that would be mirrored. Raises MirrorRefused for a loop, and what the clusters answer."""
        try:
            await self._check()
            return await self._choose_topics()
        finally:
            await self._reader.close()
            await self._source.close()

    async def run(self) -> None:
        """Mirror until `stop`."""
        settings = self.settings
        self._reader.start()
        self._each(MIRROR_ENDS_SECONDS, self._ends.look, "ends of the source")
        if settings.refresh_topics_enabled:
            self._each(settings.refresh_topics_interval_seconds, self._refresh_topics, "topics")
        if settings.sync_topic_configs_enabled:
            self._each(settings.sync_topic_configs_interval_seconds, self._sync_configs, "settings of topics")
        if settings.sync_topic_acls_enabled:
            self._each(settings.sync_topic_acls_interval_seconds, self._sync_acls, "ACLs of topics")
        try:
            await self._worker.run()
            self._set_state(WorkerState.STOPPED)
        except MirrorRefused as failure:
            self.counters.note_failure(type(failure).__name__, str(failure))
            self._set_state(WorkerState.FAILED)
            raise
        finally:
            await self._tasks.close()
            await self._offsets.close()
            if self._reverse_heartbeats is not None:
                await self._reverse_heartbeats.close()
            await self._reader.close()
            await self._source.close()

    # --- what the worker asks -------------------------------------------------------------------------------------

    async def _prepare(self) -> None:
        await self._check()
        if self._reverse_heartbeats is not None and not self._has_offsets:
            await self._reverse_heartbeats.make_topic()
        await self._choose_topics()
        if not self._has_offsets:
            self._offsets.start()
            if self._reverse_heartbeats is not None:
                self._reverse_heartbeats.start()
            self._has_offsets = True
        await self.topics.prepare()

    async def _check(self) -> None:
        if not self._is_checked:
            await refuse_same_cluster(self.settings, self._source, self._target)
            self._is_checked = True

    async def _choose_topics(self) -> list[MirroredTopic]:
        chosen = await self.topics.choose_topics()
        await refuse_identity_loop(
            self.settings, self._source, self._target, {topic.source for topic in chosen}
        )
        return chosen

    def _stop_partition(self, source: TopicPartition, kind: str, what: str) -> PartitionStopped:
        return self._worker.stop_partition(source, kind, what)

    def _read_failed(self, source: TopicPartition | None, failure: OdradekError) -> None:
        self.counters.note_failure(type(failure).__name__, f"reading {source}: {failure}", partition=source)

    def _topic_failed(self, target: str, failure: OdradekError, what: str) -> None:
        text = f"topic {target} of {self.settings.target.alias}: {what}: {failure}"
        self.counters.note_failure(type(failure).__name__, text)
        logger.warning("%s", text)

    def _set_state(self, state: WorkerState) -> None:
        self._state = state
        self._on_state()

    # --- what is done now and then --------------------------------------------------------------------------------

    def _each(self, seconds: float, work: Callable[[], Awaitable[None]], name: str) -> None:
        self._tasks.start(self._repeat(seconds, work, name), name=name)

    async def _repeat(self, seconds: float, work: Callable[[], Awaitable[None]], name: str) -> None:
        while True:
            await asyncio.sleep(seconds)
            try:
                await work()
            except OdradekError as failure:
                self.counters.note_failure(type(failure).__name__, f"{name}: {failure}")
                logger.warning("%s: %s: %s", self.label, name, failure)

    async def _refresh_topics(self) -> None:
        await self._worker.renew_rules()
        if self._worker.is_leader and self._state is WorkerState.RUNNING:
            known = set(self.topics.topics.values())
            if set(await self._choose_topics()) != known:
                self._worker.look_again()

    async def _sync_configs(self) -> None:
        if self._worker.is_leader:
            await self.topics.sync_configs()

    async def _sync_acls(self) -> None:
        if self._worker.is_leader:
            await self._acls.sync(self.topics.topics.values())


class AclSync:
    """ACLs of topics at the source, for their copies at the target, as MirrorMaker 2 mirrors them.

    An ACL that allows writing is left out, and one that allows all becomes one that allows reading: only the mirror
    writes to copies. ACLs are added and never removed. Patterns stay at the source: only ACLs of one topic by its name
    go over.
    """

    def __init__(self, *, source: Client, target: Client) -> None:
        self._source = AclAdmin(source)
        self._target = AclAdmin(target)

    async def sync(self, topics: Iterable[MirroredTopic]) -> None:
        """Add what is missing at the target. Does nothing where either cluster has no authorizer."""
        names = {topic.source: topic.target for topic in topics}
        literal = AclFilter(type=AclResourceType.TOPIC, pattern_type=PatternType.LITERAL)
        try:
            wanted = {
                mirrored
                for binding in await self._source.list(literal)
                if binding.pattern.name in names
                and (mirrored := translate_acl(binding, names[binding.pattern.name])) is not None
            }
            missing = sorted(wanted - set(await self._target.list(literal))) if wanted else []
        except (SecurityDisabled, UnsupportedByBroker) as failure:
            logger.debug("ACLs of topics are not mirrored: %s", failure)
            return
        if missing:
            for refusal in await self._target.create(missing):
                if refusal is not None:
                    raise refusal


def translate_acl(binding: AclBinding, target: str) -> AclBinding | None:
    """The ACL for the copy of a topic; None for one that stays at the source."""
    entry = binding.entry
    if entry.permission is PermissionType.ALLOW:
        if entry.operation is AclOperation.WRITE:
            return None
        if entry.operation is AclOperation.ALL:
            entry = entry._replace(operation=AclOperation.READ)
    return AclBinding(binding.pattern._replace(name=target), entry)


async def refuse_same_cluster(settings: FlowSettings, source: Client, target: Client) -> None:
    """Raises MirrorRefused where source and target are one cluster."""
    source_id = (await source.with_retries(lambda: source.refresh(()))).cluster_id
    target_id = (await target.with_retries(lambda: target.refresh(()))).cluster_id
    if source_id is not None and source_id == target_id:
        raise MirrorRefused(
            f"{settings.source.alias} and {settings.target.alias} are one cluster ({source_id}): its topics would be "
            "mirrored into itself without end. Correct the bootstrap.servers of one of them"
        )


async def topics_from(source: Client, cluster_id: str | None) -> set[str]:
    """Topics of the source that a mirror with committed positions writes, and that it reads from this cluster."""
    groups = GroupAdmin(source)
    found: set[str] = set()
    for group in await groups.list():
        if group.group_id.startswith(GROUP_PREFIX):
            try:
                committed = await groups.offsets(group.group_id)
            except OdradekError:
                continue  # the group was deleted since
            found |= {
                key.topic for key, one in committed.items() if source_cluster(one.metadata) == cluster_id
            }
    return found


async def refuse_identity_loop(
    settings: FlowSettings, source: Client, target: Client, chosen: set[str]
) -> None:
    """Raises MirrorRefused where names are kept, and a topic to mirror comes from the target itself."""
    if settings.replication_policy_class != IDENTITY_POLICY:
        return
    around = chosen & await topics_from(source, target.cluster.cluster_id)
    if around:
        raise MirrorRefused(
            f"{settings.label} would mirror topics that another mirror copies from {settings.target.alias}: "
            f"{', '.join(sorted(around)[:5])}. With {IDENTITY_POLICY} their records would go round without end. "
            "Leave them out by topics.exclude, or use DefaultReplicationPolicy"
        )


class SourceEnds:
    """Where the source ends, for partitions without fetches: those of a worker that waits, and those that stopped.

    Each answer to a fetch has the end of the readable records. While none arrives, the source is asked for it now and
    then. Where it does not answer the end is unknown, and so is the lag: a number that stands still would look like an
    idle topic.

    Keeps the ends of one flow's partitions known. Call `look` every `MIRROR_ENDS_SECONDS`.
    """

    def __init__(self, source: Client, counters: FlowCounters) -> None:
        self._source = source
        self._counters = counters

    async def look(self) -> None:
        """Ask for each end that is not known, or was seen too long ago. It is forgotten where no answer comes."""
        counters = self._counters
        seen_since_ms = counters.wall_ms() - int(MIRROR_ENDS_SECONDS * _MS_PER_SECOND)
        asked = [
            partition
            for partition, of in counters.partitions.items()
            # Without a position there is no lag.
            if of.position is not None and (of.end_offset is None or of.end_seen_ms <= seen_since_ms)
        ]
        if not asked:
            return
        answers = await self._answers(asked)
        for partition in asked:
            answer = answers.get(partition)
            kept = counters.partitions.get(partition)
            if isinstance(answer, ListedOffset):
                counters.at(partition, end_offset=answer.offset)
            elif kept is not None and kept.end_seen_ms <= seen_since_ms:
                kept.forget()

    async def _answers(
        self, asked: list[TopicPartition]
    ) -> dict[TopicPartition, ListedOffset | OdradekError]:
        try:
            async with asyncio.timeout(MIRROR_ENDS_SECONDS):
                return await LogAdmin(self._source).list_offsets_each(
                    dict.fromkeys(asked, LATEST), read_committed=True
                )
        except (TimeoutError, OdradekError) as failure:
            source = self._counters.source_alias
            logger.info(
                "the ends of %d partitions of %s are not known: %s",
                len(asked),
                source,
                failure or "no answer",
            )
            return {}
