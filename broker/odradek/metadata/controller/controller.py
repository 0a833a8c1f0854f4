"""The active controller: it decides on topics, partitions, settings, producer ids and members.

It alone writes the cluster's metadata to the registry. Every decision reads the current image and plans (`topic_plans`
and `config_plans`, pure). It then writes to the registry in one step, and gives the brokers the resulting image.
Decisions run one after the other: of two requests for one topic the first wins. The registry holds all of the image.

A topic is deleted in three steps. The first writes a mark in `/admin/delete_topics`: from then on the deletion always
completes. The second publishes an image without the topic, after which every broker deletes its files. The third
removes the topic's nodes and the mark. A start that finds marks reports them (`pending_deletions`), so that files of
deleted topics are not adopted as logs. It ends them in `complete_deletions`.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from odradek.foundation.clock import Clock
from odradek.foundation.error_values import without_trace
from odradek.foundation.errors import (
    DuplicateBrokerRegistration,
    RequestError,
    TopicAlreadyExists,
    TopicDeletionDisabled,
)
from odradek.foundation.ids import TopicId, TopicPartition
from odradek.foundation.registry_errors import NodeExists, NoNode, StoreAccessDenied
from odradek.foundation.turns import Turn
from odradek.metadata.controller import late, terms, topic_plans
from odradek.metadata.controller.access_decisions import AccessDecisions
from odradek.metadata.controller.decisions import decision
from odradek.metadata.controller.feature_plans import FeatureUpdate, plan_features
from odradek.metadata.controller.internal_topics import internal_topic
from odradek.metadata.controller.registry_writer import RegistryWriter
from odradek.metadata.controller.requests import (
    AlterConfigOp,
    CreateOutcome,
    DeletedTopic,
    DeleteOutcome,
    NewPartitions,
    NewTopic,
    Outcome,
    Resource,
    Spend,
    freely,
)
from odradek.metadata.controller.terms import topic_removal
from odradek.metadata.image import nodes, paths
from odradek.metadata.image.cordons import placeable
from odradek.metadata.image.dynamic_settings import DynamicSettings
from odradek.metadata.image.features import highest_levels
from odradek.metadata.image.image import BrokerImage, ImageHolder, TopicImage
from odradek.metadata.image.placement import count_machines
from odradek.metadata.image.topic_names import collision_key, is_internal_topic, validate_topic_name
from odradek.metadata.registry.store import Create, Put, Store, get_or_none

if TYPE_CHECKING:
    from odradek.metadata.controller.config_changes import ConfigChanges

logger = logging.getLogger(__name__)


class Controller(AccessDecisions):
    """The active controller. `start` before anything else, then `register_broker`; in a cluster `take_over`."""

    def __init__(
        self,
        store: Store,
        images: ImageHolder,
        settings: DynamicSettings,
        clock: Clock,
        *,
        rng: random.Random | None = None,
    ) -> None:
        super().__init__()
        self._store = store
        self._images = images
        self._settings = settings
        self._clock = clock
        self._rng = rng or random.SystemRandom()
        self.writer = RegistryWriter(store, images)
        self._collisions: dict[str, str] = {}
        self._deleting: dict[str, TopicId] = {}
        self.find_eligible: Callable[[], Collection[int]] = lambda: self._images.current.brokers
        """The brokers that may lead new partitions. In a cluster they are without those that are stopping."""

    # --- start and stop ------------------------------------------------------------------------------------------

    @decision
    async def start(self, *, cluster_id: str | None = None) -> None:
        """Become the controller and read the cluster.

        `cluster_id` is the one that the log directories know, if any; a new registry takes it over. Raises
        InconsistentClusterId when the registry has another, DuplicateBrokerRegistration when another controller is
        active.
        """
        term = await terms.begin(
            self._store,
            broker_id=self._broker_id,
            cluster_id=cluster_id,
            wall_ms=self._clock.wall_ms(),
            rng=self._rng,
        )
        await self._begin(term)

    @decision
    async def take_over(self, term: terms.ControllerTerm) -> None:
        """Read the cluster as the controller that was elected for this term.

        Raises NotController when the next term has begun, StoreError. Raises StoreAccessDenied when what decides on
        rights belongs to another user of the registry.
        """
        await self._protect_parents()
        await terms.begin_elected(self._store, term, rng=self._rng)
        # Where ZooKeeper's root is open, a stranger may have made one of them in between.
        await self._protect_parents()
        await self._begin(term)

    async def _protect_parents(self) -> None:
        """Raises StoreAccessDenied when what decides on rights belongs to another user of the registry."""
        foreign = await self._store.protect(("/", *paths.SKELETON))
        if foreign := [path for path in foreign if path in paths.PARENTS_OF_RIGHTS]:
            raise StoreAccessDenied(
                f"{', '.join(foreign)} of the registry belong to another user, which could give rights to any client; "
                "remove them, or set their access lists as their owner"
            )

    async def _begin(self, term: terms.ControllerTerm) -> None:
        self._deleting = await terms.find_unfinished_deletions(self._store)
        await self.writer.begin(term)
        self._collisions = {collision_key(name): name for name in self._images.current.topics}

    @decision
    async def stop(self) -> None:
        """Leave the cluster: the registrations are deleted, so that others know at once."""
        for path in (paths.broker(self._broker_id), paths.CONTROLLER):
            try:
                await self._store.delete(path)
            except NoNode:
                logger.debug("%s was not registered", path)

    @property
    def _broker_id(self) -> int:
        return self._settings.static.effective_broker_id

    @property
    def _controller_epoch(self) -> int:
        return self.writer.term.epoch

    @property
    def pending_deletions(self) -> Mapping[str, TopicId]:
        """Topics whose deletion the last stop interrupted: their files are deleted, not adopted."""
        return dict(self._deleting)

    @decision
    async def register_broker(
        self,
        *,
        endpoints: Mapping[str, tuple[str, int]],
        rack: str | None = None,
        protocols: Mapping[str, str] | None = None,
        broker_id: int | None = None,
    ) -> BrokerImage:
        """Make a broker a member: by default this one. `endpoints` are the addresses for clients, by listener.

        Raises DuplicateBrokerRegistration when a live broker has the id.
        """
        broker = BrokerImage(
            id=self._broker_id if broker_id is None else broker_id,
            endpoints=dict(endpoints),
            rack=rack,
            epoch=self.writer.term.broker_epoch,
            features=highest_levels(),
        )
        data = nodes.write_broker(
            broker,
            protocols=protocols or dict.fromkeys(endpoints, "PLAINTEXT"),
            wall_ms=self._clock.wall_ms(),
        )
        try:
            await self.writer.write([Create(paths.broker(broker.id), data, ephemeral=True)])
        except NodeExists as error:
            raise DuplicateBrokerRegistration(
                f"a live broker has the id {broker.id} already; give this one another node.id"
            ) from error
        return broker

    # --- topics --------------------------------------------------------------------------------------------------

    @decision
    async def create_topics(
        self, requests: Sequence[NewTopic], *, validate_only: bool = False, spend: Spend = freely
    ) -> list[CreateOutcome]:
        """Make topics; one outcome for each request, in order. With `validate_only` nothing is made.

        Raises PolicyViolation when all together ask for too many partitions, and StoreError when the registry fails.
        """
        outcomes: list[CreateOutcome] = []
        plans: dict[str, topic_plans.TopicPlan] = {}
        collisions = dict(self._collisions) if len(requests) > 1 else self._collisions
        # Before any work: many names alone could otherwise delay every other request.
        topic_plans.check_partition_count(len(requests))
        total = 0
        turn = topic_plans.planning_turn()
        for request in requests:
            if turn.is_over(topic_plans.PARTITIONS_THAT_A_TOPIC_COUNTS):
                await turn.next()
            try:
                plan = await self._plan(request, plans=plans, collisions=collisions, turn=turn)
                spend(len(plan.topic.partitions))
            except RequestError as error:
                outcomes.append(without_trace(error))
                continue
            total += len(plan.topic.partitions)
            topic_plans.check_partition_count(total)
            plans[request.name] = plan
            if len(requests) > 1:
                collisions[collision_key(request.name)] = request.name
            outcomes.append(topic_plans.describe_created(plan))
        if plans and not validate_only:
            await self._make_topics(list(plans.values()))
        return outcomes

    async def _plan(
        self, request: NewTopic, *, plans: Mapping[str, object], collisions: Mapping[str, str], turn: Turn
    ) -> topic_plans.TopicPlan:
        if request.name in self._deleting or request.name in plans:
            reason = "is being deleted" if request.name in self._deleting else "already exists"
            raise TopicAlreadyExists(f"Topic '{request.name}' {reason}.")
        return await topic_plans.plan_topic(
            request,
            image=self._images.current,
            collisions=collisions,
            settings=self._settings.current,
            rng=self._rng,
            turn=turn,
            eligible=self.find_eligible(),
        )

    async def _make_topics(self, plans: Sequence[topic_plans.TopicPlan]) -> None:
        await self.writer.write_in_parts(
            group
            for plan in plans
            for group in topic_plans.creation_operations(plan, controller_epoch=self._controller_epoch)
        )
        turn = Turn()
        for plan in plans:
            if turn.is_over():
                await turn.next()
            self._collisions[collision_key(plan.topic.name)] = plan.topic.name

    async def ensure_topic(self, name: str) -> TopicImage:
        """The topic, made with the broker's defaults when it is not there (internal topics with their own).

        Raises the RequestError of a topic that cannot be made.
        """
        (outcome,) = await self.ensure_topics([name])
        if isinstance(outcome, TopicImage):
            return outcome
        raise outcome

    async def ensure_topics(self, names: Sequence[str]) -> list[TopicImage | RequestError]:
        """The topics, those missing made as by `ensure_topic`; one outcome for each name, in order."""
        missing = [name for name in names if name not in self._images.current.topics]
        failures: dict[str, RequestError] = {}
        requests: list[NewTopic] = []
        for name in missing:
            try:
                requests.append(self._default_topic(name))
            except RequestError as error:
                failures[name] = without_trace(error)
        if requests:
            outcomes = await self.create_topics(requests)
            failures |= {
                request.name: outcome
                for request, outcome in zip(requests, outcomes, strict=True)
                if isinstance(outcome, RequestError)
            }
        # Read again: another request may have created a topic in between.
        topics = self._images.current.topics
        return [topics.get(name) or failures.get(name) or topic_plans.unknown_topic(name) for name in names]

    async def create_internal_topics(self, topics: Sequence[NewTopic]) -> list[Outcome]:
        """See `ControllerApi`."""
        outcomes = await self.create_topics(topics)
        return [outcome if isinstance(outcome, RequestError) else None for outcome in outcomes]

    def _default_topic(self, name: str) -> NewTopic:
        if not is_internal_topic(name):
            return NewTopic(name=name)
        # Also those that are away: it keeps its factor when they are back.
        known = placeable(self._images.current)
        machine_count = count_machines(known.racks, known.machines)
        return internal_topic(name, settings=self._settings.current, machine_count=machine_count)

    @decision
    async def register_existing(
        self,
        name: str,
        *,
        topic_id: TopicId | None,
        partition_count: int,
        leader_epochs: Mapping[int, int] | None = None,
    ) -> TopicImage:
        """Take a topic into the registry whose logs were found on disk, as in a directory that Kafka wrote.

        `leader_epochs` are the newest epochs in the logs by partition; leadership starts one above. Raises
        InvalidTopic for a name that no topic may have, TopicAlreadyExists when the registry knows it.
        """
        validate_topic_name(name)
        if name in self._images.current.topics or name in self._deleting:
            raise TopicAlreadyExists(f"Topic '{name}' already exists.")
        epochs = leader_epochs or {}
        topic = TopicImage(
            name=name,
            id=topic_id or topic_plans.new_topic_id(self._rng),
            partitions=tuple(
                topic_plans.new_partition(
                    number,
                    (self._broker_id,),
                    active=(self._broker_id,),
                    leader_epoch=epochs.get(number, -1) + 1,
                )
                for number in range(partition_count)
            ),
            is_internal=is_internal_topic(name),
        )
        config = {}
        if topic.is_internal:
            made = internal_topic(name, settings=self._settings.current, machine_count=1).config
            config = {key: text for key, text in made.items() if text is not None}
        await self._make_topics([topic_plans.TopicPlan(topic, config)])
        return self._images.current.topics[name]

    @decision
    async def bump_leader_epochs(self, partitions: Iterable[TopicPartition]) -> None:
        """Begin a new leadership of partitions whose log may have lost its tail, so that readers notice."""
        image = self._images.current
        operations = topic_plans.new_leaderships(image, partitions, controller_epoch=self._controller_epoch)
        if operations:
            await self.writer.write(operations)

    @decision
    async def delete_topics(
        self, topics: Sequence[str | TopicId], *, spend: Spend = freely
    ) -> list[DeleteOutcome]:
        """Delete topics by name or id; one outcome each, in order. Their files are put aside before this returns."""
        outcomes: list[DeleteOutcome] = []
        doomed: dict[str, TopicId] = {}
        for wanted in topics:
            try:
                topic = self._find(wanted)
                if topic.name in doomed:
                    raise topic_plans.unknown_topic(wanted)
                spend(len(topic.partitions))
            except RequestError as error:
                outcomes.append(without_trace(error))
                continue
            doomed[topic.name] = topic.id
            outcomes.append(DeletedTopic(name=topic.name, id=topic.id))
        if doomed:
            await self.writer.write_in_parts([Create(paths.deletion(name))] for name in doomed)
            self._deleting.update(doomed)
            await self._remove_nodes(doomed)
        return outcomes

    def _find(self, wanted: str | TopicId) -> TopicImage:
        if not self._settings.current.delete_topic_enable:
            raise TopicDeletionDisabled("Topic deletion is disabled: delete.topic.enable is false.")
        image = self._images.current
        topic = image.topics.get(wanted) if isinstance(wanted, str) else image.topics_by_id.get(wanted)
        if topic is None:
            raise topic_plans.unknown_topic(wanted)
        return topic

    @decision
    async def complete_deletions(self) -> None:
        """Complete the deletions that the last stop interrupted; call it once their files are renamed for deletion."""
        await self._remove_nodes(dict(self._deleting))

    async def _remove_nodes(self, names: Iterable[str]) -> None:
        for name in list(names):
            await self.writer.write_in_parts(await topic_removal(self._store, name))
            self._deleting.pop(name, None)
            if self._collisions.get(collision_key(name)) == name:
                del self._collisions[collision_key(name)]

    @decision
    async def create_partitions(
        self, requests: Sequence[NewPartitions], *, validate_only: bool = False, spend: Spend = freely
    ) -> list[Outcome]:
        """Grow topics; one outcome for each request, in order, None for success."""
        outcomes: list[Outcome] = []
        turn = topic_plans.planning_turn()
        for request in requests:
            if turn.is_over(topic_plans.PARTITIONS_THAT_A_TOPIC_COUNTS):
                await turn.next()
            try:
                image = self._images.current
                grown = await topic_plans.plan_growth(
                    request, image=image, rng=self._rng, turn=turn, eligible=self.find_eligible()
                )
                first_new = len(image.topics[grown.name].partitions)
                spend(len(grown.partitions) - first_new)
            except RequestError as error:
                outcomes.append(without_trace(error))
                continue
            if not validate_only:
                # All partitions of the topic are in its node.
                if turn.is_over(len(grown.partitions)):
                    await turn.next()
                await self.writer.write_in_parts(
                    topic_plans.growth_operations(
                        grown, first_new=first_new, controller_epoch=self._controller_epoch
                    )
                )
            outcomes.append(None)
        return outcomes

    # --- settings ------------------------------------------------------------------------------------------------

    @decision
    async def alter_configs(
        self, requests: Sequence[tuple[Resource, Mapping[str, str | None]]], *, validate_only: bool = False
    ) -> list[Outcome]:
        """Replace all settings of resources; what is not named goes back to its default. One outcome each, in order."""
        return await self._config_changes().make(requests, validate_only=validate_only)

    @decision
    async def incremental_alter_configs(
        self, requests: Sequence[tuple[Resource, Sequence[AlterConfigOp]]], *, validate_only: bool = False
    ) -> list[Outcome]:
        """Change single settings of resources; one outcome each, in order, None for success."""
        return await self._config_changes().make(requests, validate_only=validate_only)

    def _config_changes(self) -> ConfigChanges:
        # Most starts change no setting, and need not import this.
        return late.ConfigChanges(self._store, self._images, self._settings, self.writer)

    # --- features ------------------------------------------------------------------------------------------------

    @decision
    async def update_features(self, updates: Sequence[FeatureUpdate], *, validate_only: bool = False) -> None:
        """Change finalized levels, all or none. Raises InvalidUpdateVersion."""
        features = plan_features(self._images.current, updates)
        if validate_only or features is self._images.current.features:
            return
        write = Put if await self._store.exists(paths.FEATURES) else Create
        await self.writer.write([write(paths.FEATURES, nodes.write_features(features))])

    # --- producer ids --------------------------------------------------------------------------------------------

    @decision
    async def allocate_producer_ids(self, *, above: int = -1) -> tuple[int, int]:
        """Unused producer ids, all greater than `above`: the first, and how many (KIP-730)."""
        block = await get_or_none(self._store, paths.PRODUCER_ID_BLOCK)
        first = 0 if block is None else nodes.read_producer_ids(paths.PRODUCER_ID_BLOCK, block.data) + 1
        first = max(first, above + 1)
        last = first + nodes.PRODUCER_ID_BLOCK_SIZE - 1
        data = nodes.write_producer_ids(self._broker_id, first=first, last=last)
        if block is None:
            await self._store.create(paths.PRODUCER_ID_BLOCK, data)
        else:
            await self._store.put(paths.PRODUCER_ID_BLOCK, data, version=block.version)
        return first, nodes.PRODUCER_ID_BLOCK_SIZE
