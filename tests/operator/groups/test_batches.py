"""BatchReconciler over several ConsumerGroups: what goes wrong with one stays with it. Brokers are stood in for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from odradek.client.errors import ConnectionFailed
from odradek.foundation.errors import OdradekError
from odradek.foundation.ids import TopicPartition
from odradek.foundation.security_errors import ClusterAuthorizationFailed
from odradek_operator.gateways.group_values import (
    ActualGroup,
    GroupsSeen,
    GroupStep,
    PartitionEnds,
    RememberResets,
    SetOffsets,
)
from odradek_operator.gateways.kubernetes import (
    CLUSTERS,
    CONSUMER_GROUPS,
    DEPLOYMENTS,
    Forbidden,
    Json,
    KubernetesError,
    metadata,
)
from odradek_operator.reconcilers.consumer_group import run as run_module
from odradek_operator.reconcilers.consumer_group.run import group_kind
from odradek_operator.reconcilers.reconciler import Environment
from odradek_operator.reconcilers.rounds import Rounds, make_reconciler
from tests.operator.support.world import OperatorWorld
from tests.support.loop import run

WHERE = TopicPartition("orders", 0)
SILENT_SECONDS = 20.0


class Brokers:
    """Some groups that have committed 50. Looks at one of `lost` alone fail, all of them with `refusal`; a step takes a
    second.
    """

    def __init__(self) -> None:
        self.committed: dict[str, int] = {}
        self.lost: set[str] = set()
        self.refusal: OdradekError | None = None
        self.steps: list[tuple[str, int]] = []
        self.resets: dict[str, tuple[str, ...]] = {}

    @asynccontextmanager
    async def connect_client(self, bootstrap: str, *, is_secured: bool = False) -> AsyncIterator[None]:
        if bootstrap == "silent":
            await asyncio.sleep(SILENT_SECONDS)
            raise ConnectionFailed("nobody answers")
        yield

    def https_context(self, bootstrap: str) -> None:
        """Their HTTP ports are without TLS."""

    def groups(self, *_: Any) -> Brokers:
        return self

    async def describe(
        self, expected: Mapping[str, Iterable[str]]
    ) -> tuple[GroupsSeen, dict[str, OdradekError]]:
        if self.refusal is not None:
            raise self.refusal
        # They go once offsets are set, before that is seen.
        are_set = self.lost.intersection(name for name, _ in self.steps)
        if len(expected) == 1 and are_set & expected.keys():
            raise ConnectionFailed("the broker went away")
        found = {
            name: ActualGroup(
                group_id=name,
                state="Empty",
                committed={WHERE: self.committed.setdefault(name, 50)},
                resets=self.resets.get(name, ()),
            )
            for name in expected
        }
        seen = GroupsSeen(groups=found, partitions={"orders": (0,)}, ends={WHERE: PartitionEnds(0, 100)})
        return seen, {}

    async def resolve(self, timestamps_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        return dict.fromkeys(timestamps_ms, 7)

    async def carry_out(self, step: GroupStep) -> None:
        if isinstance(step, RememberResets):
            self.resets[step.group_id] = step.digests
            return
        assert isinstance(step, SetOffsets)
        if step.group_id not in self.lost:
            await asyncio.sleep(1)
        self.committed[step.group_id] = step.offsets[WHERE]
        self.steps.append((step.group_id, step.offsets[WHERE]))


class Shop(OperatorWorld):
    """A Cluster and groups that are to be reset."""

    namespace = "shop"

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self.brokers = Brokers()
        monkeypatch.setattr(run_module, "BrokerGroups", self.brokers.groups)
        self.restart_operator()
        self.create(CLUSTERS, "main", {})

    def begin(self, environment: Environment) -> None:
        self.reconciler = make_reconciler(
            environment,
            group_kind(cast(Any, None)),
            brokers=cast(Any, self.brokers),
            bootstrap=lambda body: str(metadata(body)["name"]),
        )

    def group(self, name: str, **spec: Any) -> None:
        reset = {"id": "1", "to": {"at": "Earliest"}}
        self.create(CONSUMER_GROUPS, name, {"cluster": "main", "topics": ["orders"], "reset": reset, **spec})

    def scaled_group(self, workload: str, *allowed: Json, **about: Any) -> None:
        """The group `billing`, which wants three pods of another owner's Deployment of one."""
        self.create(DEPLOYMENTS, workload, {"replicas": 1}, **about)
        self.let_scale(*allowed)
        self.group("billing", reset=None, replicas=3, workload={"name": workload})

    def let_scale(self, *workloads: Json) -> None:
        """Name workloads in the Cluster."""
        self.merge(CLUSTERS, "main", {"spec": {"scalableWorkloads": list(workloads)}})

    def replicas(self, name: str) -> int:
        """How many a Deployment is set to."""
        return int(self.body(DEPLOYMENTS, name)["spec"]["replicas"])

    def reconcile(self, name: str) -> None:
        run(self.reconciler.reconcile(self.key(CONSUMER_GROUPS, name)))

    def status(self, name: str) -> Any:
        return self.status_of(CONSUMER_GROUPS, name)

    def condition(self, name: str, type: str) -> Json:
        return self.stated(CONSUMER_GROUPS, name, type)

    def ready(self, name: str) -> str:
        return str(self.condition(name, "Ready")["reason"])

    def events(self) -> list[str]:
        return [one.reason for one in self.kubernetes.events]


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch) -> Shop:
    return Shop(monkeypatch)


def test_a_group_whose_brokers_go_away_does_not_disturb_the_others(shop: Shop) -> None:
    shop.group("lost")
    shop.group("slow")
    shop.brokers.lost = {"lost"}
    shop.reconcile("slow")
    assert shop.ready("slow") == "Governed" and shop.status("slow")["reset"]["phase"] == "Done"
    assert shop.ready("lost") == "ClusterUnreachable"
    assert shop.status("lost")["reset"]["phase"] == "Applying", "what was noted is not forgotten"
    assert sorted(shop.brokers.steps) == [("lost", 7), ("slow", 7)]
    # They come back: what was begun is ended, and not done again.
    shop.brokers.lost = set()
    shop.restart_operator()
    shop.reconcile("lost")
    assert shop.status("lost")["reset"]["phase"] == "Done" and len(shop.brokers.steps) == 2


def test_what_brokers_refuse_altogether_stands_in_the_status(shop: Shop) -> None:
    shop.group("billing")
    shop.brokers.refusal = ClusterAuthorizationFailed("the operator may not describe configs")
    shop.reconcile("billing")
    assert shop.ready("billing") == "ClusterUnreachable"
    (ready,) = shop.status("billing")["conditions"]
    assert "refuses" in ready["message"] and "may not describe configs" in ready["message"]


def test_an_invalid_group_without_a_report_does_not_hold_others_up(shop: Shop) -> None:
    shop.group("bad", topics=["no such name/"])
    shop.group("good")

    def refuse(what: str, kind: str, name: str) -> None:
        if name == "bad":
            raise KubernetesError("not now")

    shop.kubernetes.before_write = refuse
    shop.reconcile("good")
    assert shop.ready("good") == "Governed"
    with pytest.raises(KubernetesError):
        shop.reconcile("bad")


def test_an_unchanged_resource_is_reconciled_again_after_other_changes(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.group("billing", reset=None)
    shop.reconcile("billing")
    shop.brokers.committed["billing"] = 60
    shop.reconcile("billing")
    assert shop.status("billing")["lag"]["messages"] == 50, "it was left so a moment ago"
    shop.environment.mark_stale(shop.key(CONSUMER_GROUPS, "billing"))
    # A pass that fails as a whole has looked at nothing.
    with monkeypatch.context() as broken, pytest.raises(KubernetesError):
        broken.setattr(Rounds, "reconcile", _fail)
        shop.reconcile("billing")
    shop.reconcile("billing")
    assert shop.status("billing")["lag"]["messages"] == 40
    assert not shop.environment.stale


def test_a_silent_cluster_does_not_hold_up_groups_of_others(shop: Shop) -> None:
    shop.create(CLUSTERS, "silent", {})
    shop.group("stuck", cluster="silent")
    shop.group("billing")

    async def play() -> list[str]:
        ended: list[str] = []

        async def reconcile(name: str) -> None:
            await shop.reconciler.reconcile(shop.key(CONSUMER_GROUPS, name))
            ended.append(name)

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(reconcile("stuck"))
            await asyncio.sleep(0.1)
            tasks.create_task(reconcile("billing"))
        return ended

    assert run(play()) == ["billing", "stuck"]
    assert shop.ready("billing") == "Governed" and shop.ready("stuck") == "ClusterUnreachable"


async def _fail(*_: Any) -> None:
    raise KubernetesError("not now")


def test_a_group_whose_workload_is_refused_has_a_status(shop: Shop) -> None:
    shop.scaled_group("app", {"name": "app"})

    def refuse(what: str, kind: str, name: str) -> None:
        if (what, kind) == ("apply", "Deployment"):
            raise Forbidden('deployments.apps "app" is forbidden', status=403)

    shop.kubernetes.before_write = refuse
    shop.reconcile("billing")
    assert shop.ready("billing") == "Governed"
    members = shop.condition("billing", "MembersAsExpected")
    assert members["reason"] == "WorkloadRefused" and "is forbidden" in members["message"]
    assert "MembersAsExpectedLost" in shop.events()


@pytest.mark.parametrize(
    ("named", "is_scaled"),
    [
        ([], False),
        ([{"name": "app"}], True),
        ([{"name": "ap*"}], True),
        ([{"name": "*p"}, {"name": "x"}], True),
        ([{"name": "a"}], False),
        ([{"name": "app-2"}, {"name": "a.p"}], False),
        ([{"kind": "StatefulSet", "name": "app"}], False),
        ([{"name": "app"}, {"name": 7}], False),
    ],
    ids=str,
)
def test_only_workloads_that_the_cluster_names_are_scaled(
    shop: Shop, named: list[Json], is_scaled: bool
) -> None:
    shop.scaled_group("app", *named)
    shop.reconcile("billing")
    assert shop.replicas("app") == (3 if is_scaled else 1)
    members = shop.condition("billing", "MembersAsExpected")
    assert (members["reason"] == "WorkloadNotAllowed") is not is_scaled
    if not is_scaled:
        assert "spec.scalableWorkloads of the Cluster" in members["message"]
        assert "{kind: Deployment, name: app}" in members["message"]
        assert shop.ready("billing") == "Governed", "the rest of the group is governed"
        assert "MembersAsExpectedLost" in shop.events()


def test_no_group_scales_a_part_of_a_cluster(shop: Shop) -> None:
    labels = {"app.kubernetes.io/managed-by": "odradek-operator"}
    shop.scaled_group("log-controller", {"name": "*"}, labels=labels)
    shop.reconcile("billing")
    assert shop.replicas("log-controller") == 1
    members = shop.condition("billing", "MembersAsExpected")
    assert members["reason"] == "WorkloadNotAllowed" and "a part of a Cluster" in members["message"]


def test_a_workload_that_the_cluster_comes_to_name_is_scaled(shop: Shop) -> None:
    shop.scaled_group("app")
    shop.reconcile("billing")
    shop.let_scale({"name": "app"})
    shop.environment.mark_stale(shop.key(CONSUMER_GROUPS, "billing"))
    shop.reconcile("billing")
    assert shop.replicas("app") == 3


def test_names_of_clusters_that_users_make_up_take_no_memory(shop: Shop) -> None:
    for number in range(50):
        shop.group(f"g{number}", cluster=f"made-up-{number}")
        shop.reconcile(f"g{number}")
    assert len(shop.reconciler._locks) == 0


def test_two_batches_of_one_cluster_never_run_at_once(shop: Shop) -> None:
    shop.group("one")
    shop.group("two")

    async def both() -> None:
        keys = [shop.key(CONSUMER_GROUPS, name) for name in ("one", "two")]
        await asyncio.gather(*(shop.reconciler.reconcile(key) for key in keys))

    run(both())
    assert sorted(shop.brokers.steps) == [("one", 7), ("two", 7)], "each was moved once"
