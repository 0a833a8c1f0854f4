"""A day of Topics and Users on a real broker: people with kubectl, and with Kafka's tools, act at random.

Between them the operator is killed, refused and restarted. The Cluster is deleted, and made again on its volumes. In
the evening what has a resource is on the broker as declared. What went with its resource is gone. What was to stay is
the same topic as before, by its id.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from random import Random
from typing import Any, Final

from odradek.client.admin.scram import ScramRemoval
from odradek.client.client import Client
from odradek.client.results import ConfigChange, ResourceType
from odradek.foundation.errors import OdradekError
from odradek.security.authorization.filters import AclFilter
from odradek_operator.gateways.brokers import BrokerClients
from odradek_operator.gateways.kubernetes import (
    CLUSTERS,
    CONFIG_MAPS,
    SECRETS,
    TOPICS,
    USERS,
    Api,
    Json,
    KubernetesError,
)
from odradek_operator.gateways.topic_values import ActualTopic
from odradek_operator.gateways.topics import BrokerTopics
from odradek_operator.gateways.users import BrokerUsers
from odradek_operator.reconcilers.declared import record_name
from tests.operator.support.user_world import UserWorld, connect_as, read_properties

LOOKS_TO_SETTLE_MAX: Final = 10
_STEADY_LOOKS: Final = 2
_WRITES_OF_A_LIFE_MAX: Final = 10
_POLICIES: Final = ("Delete", "Retain")
_SETTINGS: Final[tuple[dict[str, str], ...]] = (
    {},
    {"retention.ms": "3600000"},
    {"retention.ms": "7200000", "max.message.bytes": "100000"},
    {"cleanup.policy": "compact"},
)
_RIGHTS: Final = (("orders", "Read"), ("orders", "Write"), ("clicks", "Read"), ("clicks", "Alter"))


class Unkept(AssertionError):
    """Brokers have what they may not have, or lack what was declared."""


class Fate(StrEnum):
    """What becomes of a thing whose resource was deleted."""

    GONE = "is to be gone"
    STAYS = "is to stay"
    EITHER = "may stay or go"  # an operator had no time to see what was asked last


@dataclass
class Declared:
    """A name, and what was asked for it. `spec` is None while no resource has the name.

    `policies` are the deletion policies of the resource since an operator has seen it whole, if one has (`is_seen`).
    `id` is that of the topic that must not be lost.
    """

    api: Api
    name: str
    spec: Json | None = None
    fate: Fate = Fate.GONE
    policies: set[str] = field(default_factory=set)
    is_seen: bool = False
    id: str | None = None
    partitions: int = 1


class DeclaredDay:
    """One seed in a world around a broker, which other days may have used. `likely` actions come 20 times as often."""

    def __init__(
        self, world: UserWorld, seed: int, *, actions: int = 60, likely: tuple[str, ...] = ()
    ) -> None:
        self.world = world
        self.history: list[str] = []
        self._seed = seed
        self._random = Random(seed)
        self._actions = actions
        self._likely = likely
        self._begun = world.now
        self._topics = [Declared(TOPICS, f"day{seed}-{name}") for name in ("orders", "clicks", "views")]
        self._users = [Declared(USERS, f"day{seed}-{name}") for name in ("ada", "ben")]
        self._has_cluster = True

    @property
    def _all(self) -> list[Declared]:
        return [*self._topics, *self._users]

    async def play(self) -> None:
        """Raises Unkept, with what happened before it."""
        log = logging.getLogger("odradek_operator")
        level = log.level
        log.setLevel(logging.CRITICAL)
        try:
            for _ in range(self._actions):
                await self._act()
                self.world.now += timedelta(seconds=self._random.choice((1, 30, 300)))
                if self._random.random() < 0.7:
                    await self._look()
            await self._settle()
            await self._compare()
            await self._leave()
        except Unkept as unkept:
            told = "\n".join(self.history[-60:])
            raise Unkept(f"{unkept}\nseed {self._seed}; what happened before:\n{told}") from None
        finally:
            log.setLevel(level)

    # --- the operator -----------------------------------------------------------------------------------------------

    async def _look(self) -> bool:
        """Reconcile each name in any order; whether nothing failed."""
        is_whole = True
        for one in self._random.sample(self._all, len(self._all)):
            try:
                await self._reconcile(one)
            except (KubernetesError, OdradekError):
                is_whole = False
            except Exception as failure:
                if not getattr(failure, "is_expected", False):
                    raise
                is_whole = False
        if self._has_cluster and self.world.kubernetes.broken is None:
            await self._note_seen(is_whole)
        return is_whole

    async def _reconcile(self, one: Declared) -> None:
        await (self.world.topic(one.name) if one.api is TOPICS else self.world.user(one.name))

    async def _note_seen(self, is_whole: bool) -> None:
        there = await self._describe_topics()
        for one in self._all:
            if one.spec is not None and self._is_ready(one):
                one.is_seen = True
                one.policies = {one.spec["deletionPolicy"]}
            found = there.get(one.name) if one.api is TOPICS else None
            if one.id is not None and (found is None or str(found.id) != one.id):
                raise Unkept(f"the topic {one.name} was to stay, and its records are lost")
            if found is not None and is_whole and (one.is_seen and one.spec is not None):
                one.id = str(found.id)

    def _is_ready(self, one: Declared) -> bool:
        body = self.world.body(one.api, one.name)
        status = body.get("status") or {}
        is_current = status.get("observedGeneration") == body["metadata"]["generation"]
        return is_current and self.world.stated(one.api, one.name, "Ready").get("status") == "True"

    async def _restart(self) -> None:
        """A new process, with connections of its own."""
        await self.world.clients.close()
        self.world.clients = BrokerClients()
        await self.world.clients.secure(self.world.bootstrap, {"security.protocol": "PLAINTEXT"})
        self.world.restart_operator()

    # --- what may happen --------------------------------------------------------------------------------------------

    async def _act(self) -> None:
        actions: list[tuple[int, Callable[[], Awaitable[str | None]]]] = [
            (12, self._apply_topic),
            (5, self._delete_topic),
            (8, self._apply_user),
            (5, self._delete_user),
            (3, self._rotate_password),
            (6, self._kill_operator),
            (3, self._refuse_calls),
            (3, self._delete_or_make_cluster),
            (3, self._lose_record),
            (2, self._delete_secret),
            (2, self._delete_topic_by_hand),
            (3, self._alter_topic_by_hand),
            (3, self._take_from_user_by_hand),
        ]
        weights = [
            weight * (20 if action.__name__.lstrip("_") in self._likely else 1) for weight, action in actions
        ]
        (_, action) = self._random.choices(actions, weights)[0]
        if (done := await action()) is not None:
            self.history.append(f"{self.world.now - self._begun} {done}")

    async def _apply_topic(self) -> str:
        one = self._random.choice(self._topics)
        one.partitions = min(one.partitions + self._random.choice((0, 0, 1)), 4)
        return self._apply(
            one,
            partitions=one.partitions,
            config=self._random.choice(_SETTINGS),
            deletionPolicy=self._policy(),
        )

    async def _apply_user(self) -> str:
        rights = self._random.sample(_RIGHTS, self._random.randrange(3))
        acls = [
            {"resource": {"type": "topic", "name": name}, "operations": [operation]}
            for name, operation in rights
        ]
        quotas = {"producerByteRate": self._random.choice((None, 1_000, 2_000))}
        return self._apply(
            self._random.choice(self._users), acls=acls, quotas=quotas, deletionPolicy=self._policy()
        )

    def _policy(self) -> str:
        return self._random.choice(_POLICIES)

    def _apply(self, one: Declared, **spec: Any) -> str:
        policy = spec["deletionPolicy"]
        if one.spec is None:
            self.world.make(one.api, one.name, **_without_none(spec))
            one.policies, one.is_seen = {policy}, False
            if one.fate is not Fate.STAYS:
                one.id = None
        else:
            removed = {"config": dict.fromkeys(one.spec.get("config") or {}) | (spec.get("config") or {})}
            self.world.edit(one.api, one.name, **{**spec, **(removed if one.api is TOPICS else {})})
            one.policies.add(policy)
        one.spec = spec
        return f"kubectl apply {one.api.kind} {one.name}: {spec}"

    async def _delete_topic(self) -> str | None:
        return self._delete(self._random.choice(self._topics))

    async def _delete_user(self) -> str | None:
        return self._delete(self._random.choice(self._users))

    def _delete(self, one: Declared) -> str | None:
        if one.spec is None:
            return None
        self.world.delete(one.api, one.name)
        one.spec = None
        one.fate = self._fate_of(one)
        if one.fate is not Fate.STAYS:
            one.id = None
        return f"kubectl delete {one.api.kind} {one.name}, which {one.fate}"

    @staticmethod
    def _is_kept(one: Declared) -> bool:
        return one.is_seen and one.policies == {"Retain"}

    def _fate_of(self, one: Declared) -> Fate:
        if self._is_kept(one):
            return Fate.STAYS
        if one.policies != {"Delete"}:
            return Fate.EITHER
        # A user is recorded before brokers have it, so there is none that no operator knows, unless one was to stay
        # from an earlier resource. A topic may be made before its Topic owns it. In a Cluster that is away, or was made
        # again, its deletion counts only where it was seen.
        is_certain = one.is_seen and self._has_cluster
        if one.api is USERS:
            is_certain = one.is_seen or one.fate is Fate.GONE
        return Fate.GONE if is_certain else Fate.EITHER

    async def _rotate_password(self) -> str | None:
        one = self._random.choice(self._users)
        if one.spec is None:
            return None
        value = str(self._random.randrange(1_000))
        self.world.rotate(one.name, value)
        return f"kubectl annotate user {one.name}: a new password, {value}"

    async def _kill_operator(self) -> str:
        writes = self._random.randrange(_WRITES_OF_A_LIFE_MAX)
        before = asyncio.all_tasks()
        with self.world.kubernetes.killed_after(writes) as life:
            await self._look()
        left = asyncio.all_tasks() - before
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        await self._restart()
        return f"the operator is killed after {writes} writes ({'cut' if life.was_cut else 'idle'})"

    async def _refuse_calls(self) -> str:
        self.world.kubernetes.broken = KubernetesError("the API server is away", status=503)
        await self._look()
        self.world.kubernetes.broken = None
        return "the API server refuses for a while"

    async def _delete_or_make_cluster(self) -> str:
        if self._has_cluster:
            self.world.delete_cluster()
            done = "kubectl delete cluster"
        else:
            self.world.make_cluster_again()
            done = "kubectl apply cluster, on its volumes"
        self._has_cluster = not self._has_cluster
        for one in self._topics:
            # Its deletion may not have been seen, and of the new Cluster's record it is no entry yet.
            if one.fate is Fate.GONE:
                one.fate = Fate.EITHER
            one.is_seen = one.is_seen and self._is_kept(one)
        return done

    async def _lose_record(self) -> str | None:
        """By an operator that has seen the record: one that starts afterwards cannot know what was in it."""
        api = self._random.choice((TOPICS, USERS))
        name = record_name("main", api)
        if not self._has_cluster or self.world.get(CONFIG_MAPS, name) is None or not await self._look_well():
            return None
        if self.world.get(CONFIG_MAPS, name) is None:
            return None
        self.world.delete(CONFIG_MAPS, name)
        for one in self._all:
            self.world.environment.mark_stale(self.world.key(one.api, one.name))
        gone = self._delete(self._random.choice(self._topics if api is TOPICS else self._users))
        await self._look_well()
        return f"kubectl delete configmap {name}; {gone}"

    async def _look_well(self) -> bool:
        return await self._look() or await self._look()

    async def _delete_secret(self) -> str | None:
        one = self._random.choice(self._users)
        if self.world.get(SECRETS, one.name) is None:
            return None
        self.world.delete(SECRETS, one.name)
        return f"kubectl delete secret {one.name}"

    async def _delete_topic_by_hand(self) -> str | None:
        one = self._random.choice(self._topics)
        if one.name not in await self._describe_topics():
            return None
        async with self.world.admin() as admin:
            await admin.topics.delete(one.name)
        one.id = None
        if one.spec is None and one.fate is Fate.STAYS:
            one.fate = Fate.GONE
        return f"kafka-topics --delete {one.name}"

    async def _alter_topic_by_hand(self) -> str | None:
        one = self._random.choice(self._topics)
        if one.spec is None or one.name not in await self._describe_topics():
            return None
        async with self.world.admin() as admin:
            change = ConfigChange("retention.ms", str(self._random.randrange(1_000_000)))
            await admin.configs.alter(ResourceType.TOPIC, one.name, [change])
        return f"kafka-configs --alter {one.name}: retention.ms"

    async def _take_from_user_by_hand(self) -> str | None:
        one = self._random.choice(self._users)
        if one.spec is None:
            return None
        one.is_seen = False
        self.world.environment.mark_stale(self.world.key(USERS, one.name))  # as the resync does
        async with self.world.admin() as admin:
            await admin.acls.delete([AclFilter(principal=f"User:{one.name}")])
            for mechanism in (await admin.scram.describe([one.name])).get(one.name, {}):
                await admin.scram.alter(removals=[ScramRemoval(one.name, mechanism)])
        return f"kafka-acls --remove, kafka-configs --delete-config of {one.name}"

    # --- the evening ------------------------------------------------------------------------------------------------

    async def _settle(self) -> None:
        if not self._has_cluster:
            self.history.append(await self._delete_or_make_cluster())
        steady = 0
        for _ in range(LOOKS_TO_SETTLE_MAX):
            self.world.now += timedelta(hours=2)
            await self._restart()
            written = len(self.world.kubernetes.written)
            is_whole = await self._look()
            steady = steady + 1 if is_whole and len(self.world.kubernetes.written) == written else 0
            if steady == _STEADY_LOOKS:
                return
        raise Unkept(f"the operator still changes things: {self.world.kubernetes.written[-6:]}")

    async def _compare(self) -> None:
        there = await self._describe_topics()
        for one in self._topics:
            _compare_topic(one, there.get(one.name))
        for one in self._users:
            await self._compare_user(one)
        for api in (TOPICS, USERS):
            wanted = {
                one.name
                for one in self._all
                if one.api is api and one.spec is not None and one.spec["deletionPolicy"] == "Delete"
            }
            own = {name for name in self.world.entries(api) if name.startswith(f"day{self._seed}-")}
            # A Topic that was deleted while its Cluster was away may be applied again, with the Cluster.
            may_come = {one.name for one in self._all if one.spec is None and one.fate is Fate.EITHER}
            if not wanted <= own <= wanted | may_come:
                raise Unkept(f"the record of {api.plural} has {sorted(own)}, and not {sorted(wanted)}")

    async def _compare_user(self, one: Declared) -> None:
        async with Client(self.world.bootstrap) as client:
            seen = await BrokerUsers(client).describe(one.name, user=one.name)
        is_known = bool(seen.mechanisms or seen.acls or seen.quotas)
        if one.spec is None:
            if is_known and one.fate is Fate.GONE:
                raise Unkept(f"the user {one.name} has no User, and brokers know it: {seen}")
            if one.fate is Fate.STAYS and not is_known:
                raise Unkept(f"the user {one.name} was to stay, and brokers do not know it")
            if self.world.get(SECRETS, one.name) is not None:
                raise Unkept(f"the user {one.name} has no User, and its Secret is there")
            return
        rights = {(binding.pattern.name, binding.entry.operation.name.title()) for binding in seen.acls or ()}
        wanted = {(rule["resource"]["name"], rule["operations"][0]) for rule in one.spec["acls"]}
        if rights != wanted:
            raise Unkept(f"the user {one.name} has the rights {sorted(rights)}, and not {sorted(wanted)}")
        rate = one.spec["quotas"]["producerByteRate"]
        quotas = {} if rate is None else {"producer_byte_rate": float(rate)}
        if dict(seen.quotas) != quotas:
            raise Unkept(f"the user {one.name} has the quotas {seen.quotas}, and not {quotas}")
        try:
            await connect_as(read_properties(self.world.secret(one.name)))
        except OdradekError as failure:
            raise Unkept(f"the user {one.name} cannot log in by its Secret: {failure}") from None

    async def _leave(self) -> None:
        """Delete every resource: what went with it is gone, and what stayed is removed by hand."""
        for one in self._all:
            if (done := self._delete(one)) is not None:
                self.history.append(done)
        for _ in range(3):
            await self._look()
        await self._compare()
        there = await self._describe_topics()
        async with self.world.admin() as admin:
            await admin.topics.delete_many(sorted(there))
            users = BrokerUsers(admin.topics._client)
            for one in self._users:
                await users.remove(one.name, user=one.name)
        self.world.delete(CLUSTERS, "main")

    async def _describe_topics(self) -> dict[str, ActualTopic]:
        async with Client(self.world.bootstrap) as client:
            seen = await BrokerTopics(client).describe(one.name for one in self._topics)
        return {name: found for name, found in seen.topics.items() if isinstance(found, ActualTopic)}


def _compare_topic(one: Declared, found: ActualTopic | None) -> None:
    if one.spec is None:
        if found is not None and one.fate is Fate.GONE:
            raise Unkept(f"the topic {one.name} has no Topic, and is there")
        if one.id is not None and (found is None or str(found.id) != one.id):
            raise Unkept(f"the topic {one.name} was to stay, and its records are lost")
        return
    if found is None:
        raise Unkept(f"the topic {one.name} is not there")
    if len(found.partitions) != one.spec["partitions"] or dict(found.config) != one.spec["config"]:
        raise Unkept(f"the topic {one.name} is {found}, and not {one.spec}")


def _without_none(spec: Json) -> Json:
    """As kubectl applies it: a field that is not given is absent."""
    return {
        key: {name: text for name, text in value.items() if text is not None}
        if isinstance(value, dict)
        else value
        for key, value in spec.items()
    }
