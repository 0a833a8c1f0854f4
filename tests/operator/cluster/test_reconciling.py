"""A Cluster from nothing to settled and on from there, with Kubernetes and brokers in memory."""

from __future__ import annotations

from itertools import pairwise

import pytest

from odradek.client.errors import ConnectionFailed
from odradek_operator.gateways.cluster_admin import RestartAnswer
from odradek_operator.gateways.kubernetes import (
    CLUSTERS,
    PODS,
    SERVICES,
    STATEFUL_SETS,
    VOLUME_CLAIMS,
    Api,
    metadata,
)
from tests.operator.support.world import KEY, World
from tests.support.loop import run

BROKER_PODS = {"events-broker-0", "events-broker-1", "events-broker-2"}


def test_a_cluster_is_made_and_then_left_alone() -> None:
    async def scenario() -> None:
        world = World()
        await world.settle()
        assert world.status["brokers"] == {"wanted": 3, "ready": 3, "current": 3}
        assert world.status["controllers"]["ready"] == 2 and world.status["zookeeper"]["ready"] == 1
        assert world.condition("Ready")["status"] == "True"
        assert world.status["bootstrap"] == "events-bootstrap.default.svc.cluster.local:9092"
        assert (world.status["image"], world.status["version"]) == ("odradek:1", "1")
        assert world.status["observedGeneration"] == 1
        assert "movement" not in world.status
        written = len(world.kubernetes.written)
        for _ in range(3):
            assert await world.look() is None
        assert len(world.kubernetes.written) == written, "a settled Cluster is written to"

    run(scenario())


def test_pods_come_after_their_accounts_and_zookeeper_before_all_else() -> None:
    async def scenario() -> None:
        world = World()
        await world.look()
        applied = [(kind, name) for what, kind, name in world.kubernetes.written if what == "apply"]
        sets = [place for place in applied if place[0] in ("StatefulSet", "Deployment")]
        assert sets[0] == ("StatefulSet", "events-zookeeper") and len(sets) == 3
        for place in sets:
            assert applied.index(("ServiceAccount", place[1])) < applied.index(place)
        assert applied.index(sets[0]) <= 4, "ZooKeeper waits for nothing but the accounts and its settings"

    run(scenario())


def test_whatever_happens_between_two_writes_the_next_operator_goes_on() -> None:
    async def scenario() -> None:
        whole = World()
        await whole.settle()
        writes = len(whole.kubernetes.written)
        assert writes > 20
        for cut in range(writes):
            world = World()
            await world.settle_through_kills(cut)
            assert world.status["brokers"] == {"wanted": 3, "ready": 3, "current": 3}, cut
            assert set(world.pods()) == BROKER_PODS

    run(scenario())


def test_a_new_image_restarts_brokers_one_by_one_and_controllers_last() -> None:
    async def scenario() -> None:
        world = World()
        await world.settle()
        before, controllers = world.pods(), world.pods("controller")
        world.change(spec__image="odradek:2")
        gone: list[set[str]] = []
        for _ in range(60):
            after = await world.look()
            replaced = {name for name, uid in world.pods().items() if before.get(name) != uid}
            gone.append(replaced)
            if len(replaced) < 3:
                assert world.pods("controller") == controllers, "controllers go after the brokers"
                assert world.condition("Ready")["status"] == "True"
            if after is None:
                break
        sizes = [len(replaced) for replaced in gone]
        assert sizes[-1] == 3 and all(later - earlier <= 1 for earlier, later in pairwise(sizes))
        assert world.status["image"] == "odradek:2"
        assert set(world.pods("controller")).isdisjoint(controllers)
        assert [told.reason for told in world.kubernetes.told] == ["BrokerRestarts"] * 3

    run(scenario())


def test_a_roll_waits_for_replicas_in_sync_and_says_so_and_does_not_wait_for_what_cannot_be() -> None:
    async def scenario() -> None:
        world = World()
        await world.settle()
        before = world.pods()
        for broker in range(3):
            world.brokers.answers[broker] = RestartAnswer(known=True, waiting_for=("orders-3",))
        world.change(spec__image="odradek:2")
        for _ in range(5):
            assert await world.look() is not None
        assert world.pods() == before
        rolling = world.condition("Rolling")
        assert rolling["status"] == "True" and rolling["reason"] == "Waiting"
        assert "orders-3" in rolling["message"] and "broker 0" in rolling["message"]
        # Another broker may go first.
        world.brokers.answers[1] = RestartAnswer(known=True, never_safe=("fragile-0",))
        await world.look()
        assert {name for name, uid in world.pods().items() if before.get(name) != uid} == {"events-broker-1"}
        assert any(
            told.reason == "PartitionsAway" and "fragile-0" in told.message for told in world.kubernetes.told
        )
        world.brokers.answers.clear()
        await world.settle()
        assert world.condition("Rolling")["status"] == "False"

    run(scenario())


def test_a_pod_that_does_not_serve_anyway_goes_first_and_nobody_is_asked() -> None:
    async def scenario() -> None:
        world = World()
        await world.settle()
        world.nodes.broken.add("events-broker-2")
        world.objects.delete(PODS, "default", "events-broker-2", uid=None, orphan=False)
        world.nodes.turn()
        before = world.pods()
        world.brokers.asked.clear()
        world.change(spec__image="odradek:2")
        for _ in range(4):
            await world.look()
        after = world.pods()
        assert after["events-broker-2"] != before["events-broker-2"]
        assert after["events-broker-0"] == before["events-broker-0"], "no other broker goes while one is away"
        assert world.brokers.asked == []
        world.nodes.broken.clear()
        await world.settle()
        assert world.status["brokers"]["current"] == 3

    run(scenario())


def test_what_brokers_take_while_they_run_restarts_nobody_and_the_rest_does() -> None:
    async def scenario() -> None:
        world = World()
        await world.settle()
        before, controllers = world.pods(), world.pods("controller")
        world.change(spec__brokers={"config": {"log.retention.ms": 3600000}})
        await world.settle()
        assert world.brokers.overrides == {"log.retention.ms": "3600000"}
        assert world.pods() == before and world.pods("controller") == controllers
        assert world.status["liveSettings"] == ["log.retention.ms"]
        world.change(spec__brokers={"config": {"log.retention.ms": 3600000, "num.partitions": 7}})
        await world.settle()
        assert set(world.pods().values()).isdisjoint(before.values())
        assert set(world.pods("controller")).isdisjoint(controllers)

    run(scenario())


def test_the_restart_annotation_counts_once_for_each_value() -> None:
    async def scenario() -> None:
        world = World()
        await world.settle()
        first = world.pods()
        world.change(metadata__annotations={"odradek.io/restart": "monday"})
        await world.settle()
        second = world.pods()
        assert set(first.values()).isdisjoint(second.values())
        world.change(metadata__annotations={"odradek.io/restart": None})
        await world.settle()
        assert world.pods() == second

    run(scenario())


def test_new_brokers_are_filled_even_when_the_operator_dies_meanwhile() -> None:
    async def scenario() -> None:
        for cut in range(12):
            world = World()
            await world.settle()
            world.change(spec__brokers={"replicas": 4})
            await world.settle_through_kills(cut)
            assert set(world.pods()) == {*BROKER_PODS, "events-broker-3"}
            assert world.brokers.replicas[3] == 4, f"cut after {cut}: the new broker stays empty"
            assert "movement" not in world.status

    run(scenario())


def test_brokers_are_emptied_before_they_go_and_their_volumes_stay() -> None:
    async def scenario() -> None:
        world = World({"brokers": {"replicas": 4}})
        await world.settle()
        world.brokers.replicas = {3: 5}
        world.change(spec__brokers={"replicas": 3})
        await world.look()
        assert "events-broker-3" in world.pods() and 3 in world.brokers.cordoned
        assert world.status["movement"]["reason"] == "ScaleDown" and world.status["movement"]["left"] == 5
        await world.settle()
        assert set(world.pods()) == BROKER_PODS
        assert world.brokers.replicas[3] == 0
        assert world.get(VOLUME_CLAIMS, "data-events-broker-3") is not None
        assert "movement" not in world.status

    run(scenario())


def test_brokers_that_cannot_be_emptied_stay_and_it_is_said_why() -> None:
    async def scenario() -> None:
        world = World()
        await world.settle()
        world.brokers.too_few = True
        world.change(spec__brokers={"replicas": 2, "config": {"min.insync.replicas": 1}})
        for _ in range(8):
            await world.look()
        assert set(world.pods()) == BROKER_PODS
        assert world.brokers.cordoned == set()
        scaling = world.condition("Scaling")
        assert scaling["status"] == "False" and "orders-0" in scaling["message"]
        # The owner thinks better of it.
        world.change(spec__brokers={"replicas": 3, "config": None})
        await world.settle()
        assert world.condition("Scaling") == {}

    run(scenario())


def test_volumes_grow_and_pods_stay() -> None:
    async def scenario() -> None:
        world = World()
        await world.settle()
        before = world.pods()
        world.change(spec__brokers={"storage": {"size": "20Gi"}})
        await world.settle()
        for broker in range(3):
            claim = world.get(VOLUME_CLAIMS, f"data-events-broker-{broker}")
            assert claim is not None and claim["spec"]["resources"]["requests"]["storage"] == "20Gi"
        stateful_set = world.get(STATEFUL_SETS, "events-broker")
        assert stateful_set is not None
        template = stateful_set["spec"]["volumeClaimTemplates"][0]
        assert template["spec"]["resources"]["requests"]["storage"] == "20Gi"
        assert world.pods() == before

    run(scenario())


def test_a_pod_and_its_volume_are_replaced_when_asked_for() -> None:
    async def scenario() -> None:
        world = World()
        await world.settle()
        claim, before = world.get(VOLUME_CLAIMS, "data-events-broker-1"), world.pods()
        assert claim is not None
        world.objects.merge(
            PODS, "default", "events-broker-1", {"metadata": {"annotations": {"odradek.io/replace": "true"}}}
        )
        await world.settle()
        renewed = world.get(VOLUME_CLAIMS, "data-events-broker-1")
        assert renewed is not None and renewed["metadata"]["uid"] != claim["metadata"]["uid"]
        after = world.pods()
        assert [name for name in after if after[name] != before[name]] == ["events-broker-1"]

    run(scenario())


def test_a_pod_of_a_lost_node_that_is_to_be_replaced_is_removed_by_force() -> None:
    async def scenario() -> None:
        world = World()
        await world.settle()
        claim, before = world.get(VOLUME_CLAIMS, "data-events-broker-1"), world.pods()
        assert claim is not None
        # Kubernetes has begun to remove it, and waits for a node that is no more.
        world.objects.merge(
            PODS,
            "default",
            "events-broker-1",
            {
                "metadata": {
                    "annotations": {"odradek.io/replace": "true"},
                    "finalizers": ["example.com/kubelet"],
                }
            },
        )
        world.objects.delete(PODS, "default", "events-broker-1", uid=None, orphan=False)
        await world.look()
        assert world.kubernetes.forced == ["events-broker-1"]
        renewed = world.get(VOLUME_CLAIMS, "data-events-broker-1")
        assert renewed is None or renewed["metadata"]["uid"] != claim["metadata"]["uid"]
        world.objects.merge(PODS, "default", "events-broker-1", {"metadata": {"finalizers": None}})
        await world.settle()
        assert [name for name, uid in world.pods().items() if before[name] != uid] == ["events-broker-1"]

    run(scenario())


def test_load_balancers_are_waited_for_at_the_first_start_and_not_for_ever() -> None:
    listener = {"name": "outside", "type": "LoadBalancer", "port": 9094}

    async def scenario() -> None:
        world = World({"listeners": [listener]})
        for _ in range(5):
            await world.look()
        assert world.pods() == {}
        assert "outside" in world.condition("Listeners")["message"]
        for broker in range(3):
            ingress = {"loadBalancer": {"ingress": [{"ip": f"1.2.3.{broker}"}]}}
            world.objects.set_status(SERVICES, "default", f"events-outside-{broker}", ingress, uid=None)
        await world.settle()
        assert world.status["listeners"][0]["brokers"] == ["1.2.3.0:9094", "1.2.3.1:9094", "1.2.3.2:9094"]
        assert world.condition("Listeners") == {}

        late = World({"listeners": [listener]})
        for _ in range(70):
            await late.look()
        assert set(late.pods()) == BROKER_PODS and late.condition("Ready")["status"] == "True"
        assert late.condition("Listeners")["status"] == "False"

    run(scenario())


def test_a_listener_that_is_taken_away_takes_its_services_along() -> None:
    async def scenario() -> None:
        world = World({"listeners": [{"name": "outside", "type": "Internal", "port": 9094}]})
        await world.settle()
        assert world.get(SERVICES, "events-outside-2") is not None
        world.change(spec__listeners=[])
        await world.settle()
        assert world.get(SERVICES, "events-outside-2") is None
        assert world.get(SERVICES, "events-bootstrap") is not None

    run(scenario())


def test_a_paused_cluster_is_left_alone_and_says_so() -> None:
    async def scenario() -> None:
        world = World()
        await world.settle()
        world.change(metadata__annotations={"odradek.io/paused": "true"}, spec__image="odradek:2")
        before = world.pods()
        await world.settle()
        assert world.pods() == before
        assert world.condition("Paused")["status"] == "True"
        world.change(metadata__annotations={"odradek.io/paused": None})
        await world.settle()
        assert world.condition("Paused") == {} and world.status["image"] == "odradek:2"

    run(scenario())


def test_a_spec_that_cannot_be_is_said_and_changes_nothing() -> None:
    async def scenario() -> None:
        world = World()
        await world.settle()
        before = world.pods()
        world.change(spec__brokers={"config": {"num.partition": 3}})
        await world.settle()
        ready = world.condition("Ready")
        assert ready["reason"] == "InvalidSpec" and "did you mean num.partitions?" in ready["message"]
        assert world.pods() == before

    run(scenario())


def test_brokers_that_do_not_answer_are_no_reason_to_touch_them() -> None:
    async def scenario() -> None:
        world = World()
        await world.settle()
        before = world.pods()
        world.brokers.failure = ConnectionFailed("nobody there")
        assert await world.look() is not None
        assert "nobody there" in world.condition("Reachable")["message"]
        assert world.pods() == before
        world.brokers.failure = None
        await world.settle()
        assert world.condition("Reachable") == {}

    run(scenario())


def test_a_broker_that_does_not_tell_its_settings_is_not_current_and_controllers_wait_for_it() -> None:
    async def scenario() -> None:
        world = World()
        await world.settle()
        before, controllers = world.pods(), world.pods("controller")
        world.brokers.silent = {1}
        world.change(spec__brokers={"config": {"num.partitions": 7}})
        for _ in range(8):
            assert await world.look() is not None
        assert [name for name, uid in world.pods().items() if before[name] == uid] == ["events-broker-1"]
        assert world.status["brokers"] == {"wanted": 3, "ready": 3, "current": 2}
        rolling = world.condition("Rolling")
        assert rolling["status"] == "Unknown" and "settings: 1" in rolling["message"]
        assert "broker 1 says nothing" in world.condition("Reachable")["message"]
        assert world.pods("controller") == controllers, "controllers go after the brokers"
        world.brokers.silent = set()
        await world.settle()
        assert world.pods()["events-broker-1"] != before["events-broker-1"]
        assert world.status["brokers"]["current"] == 3 and world.condition("Rolling")["status"] == "False"
        assert set(world.pods("controller")).isdisjoint(controllers)

    run(scenario())


def test_what_vanishes_while_it_is_worked_on_is_done() -> None:
    """Between what was read and what is written a controller's pod goes, a claim goes, and at last the Cluster."""

    async def scenario() -> None:
        world = World()
        await world.settle()
        gone: list[str] = []

        def losing(kind: str, of: Api) -> None:
            for name in [metadata(one)["name"] for one in world.objects.list(of, "default")]:
                if kind in name:
                    world.objects.delete(of, "default", name, uid=None, orphan=False)
                    gone.append(name)

        world.kubernetes.before_write = lambda what, kind, name: (
            losing("controller", PODS) if (what, kind) == ("annotations", "Pod") else None
        )
        pods = world.pods("controller")
        for name in pods:  # So that one is to be marked as the active one.
            patch = {"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "7"}}}
            world.objects.merge(PODS, "default", name, patch)
        await world.look()
        assert set(gone) == set(pods)
        world.kubernetes.before_write = lambda what, kind, name: (
            losing("broker-1", VOLUME_CLAIMS) if (what, kind) == ("apply", "PersistentVolumeClaim") else None
        )
        world.change(spec__brokers={"storage": {"size": "20Gi"}})
        await world.look()
        assert "data-events-broker-1" in gone and world.condition("Volumes") == {}
        world.kubernetes.before_write = lambda what, kind, name: (
            losing("events", CLUSTERS) if what == "status" else None
        )
        world.change(spec__image="odradek:2")
        while world.objects.get(CLUSTERS, "default", "events") is not None:
            await world.reconciler.reconcile(KEY)
        assert await world.reconciler.reconcile(KEY) is None

    run(scenario())


@pytest.mark.parametrize("deleted", [True, False])
def test_a_cluster_that_goes_holds_nothing_up(deleted: bool) -> None:
    async def scenario() -> None:
        world = World()
        if not deleted:
            await world.settle()
        world.objects.delete(CLUSTERS, "default", "events", uid=None, orphan=False)
        assert await world.reconciler.reconcile(KEY) is None
        assert world.get(STATEFUL_SETS, "events-broker") is None
        assert list(world.conditions.samples()) == []

    run(scenario())
