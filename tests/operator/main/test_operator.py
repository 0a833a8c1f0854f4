"""The whole process against an API server in memory: kopf's watches wake reconcilers, the Lease, probes, metrics, the
end.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import kopf
import pytest
from click.testing import CliRunner

from odradek_operator.foundation.keys import Key
from odradek_operator.foundation.settings import OperatorSettings
from odradek_operator.gateways.kubernetes import (
    APIS,
    CLUSTERS,
    CONFIG_MAPS,
    DEPLOYMENTS,
    EVENTS,
    LEASES,
    MIRRORS,
    PODS,
    STATEFUL_SETS,
    TOPICS,
    Api,
    Json,
)
from odradek_operator.handlers.events import CHILDREN
from odradek_operator.main.cli import main
from odradek_operator.main.lease import HOLDER_POD, LeaseLost, OperatorLease
from odradek_operator.main.process import Operator
from odradek_operator.main.strip_finalizers import strip
from odradek_operator.main.watches import NamespaceWatches, WatchesEnded
from odradek_operator.reconcilers.reconciler import CLEANUP_FINALIZER, Environment, Reconciler
from odradek_operator.resources.cluster_status import ClusterStatus
from odradek_operator.resources.conditions import ready_condition
from tests.operator.support.api_server import ApiServer
from tests.operator.support.gateway import gateway_to
from tests.operator.support.world import manifest
from tests.support.polling import SECONDS_MAX, eventually
from tests.support.stories import told_by

SETTINGS = OperatorSettings(
    namespaces=("default",),
    home="system",
    identity="one",
    http_host="127.0.0.1",
    http_port=0,
    # A machine that pauses for a second loses no Lease; tests of the Lease have lengths of their own.
    lease_seconds=15,
)


class Noting:
    """A reconciler that notes what it was woken for, and states that all is well."""

    def __init__(self, environment: Environment, seen: asyncio.Queue[Key]) -> None:
        self._environment = environment
        self._seen = seen

    async def reconcile(self, key: Key) -> float | None:
        body = await self._environment.kubernetes.get(APIS[key.kind], key.namespace, key.name)
        if body is not None:
            await self._environment.write_status(body, ClusterStatus(), [ready_condition(True, "Fine")])
        self._seen.put_nowait(key)
        return None


class Running:
    """An operator that runs in a test."""

    def __init__(self, server: ApiServer, settings: OperatorSettings = SETTINGS) -> None:
        self.server = server
        self.seen: asyncio.Queue[Key] = asyncio.Queue()
        self.stop = asyncio.Event()
        self.kubernetes = gateway_to(server.url)

        def reconcilers(environment: Environment) -> Mapping[str, Reconciler]:
            noting = Noting(environment, self.seen)
            return {"Cluster": noting, "Topic": noting, "Mirror": noting}

        self.operator = Operator(
            settings,
            self.kubernetes,
            reconcilers=reconcilers,
            login=lambda: kopf.ConnectionInfo(server=server.url),
        )
        self.task = asyncio.ensure_future(self.operator.run(self.stop))

    async def woken_for(self, key: Key) -> None:
        """Wait until this key was reconciled."""
        async with asyncio.timeout(SECONDS_MAX):
            while await self.seen.get() != key:
                pass

    async def ask(self, path: str) -> tuple[int, str]:
        """GET from the operator's own port."""
        url = f"http://127.0.0.1:{self.operator.http.port}{path}"
        async with aiohttp.ClientSession() as session, session.get(url) as answer:
            return answer.status, await answer.text()

    async def end(self) -> None:
        """Stop it and wait for the end."""
        self.stop.set()
        async with asyncio.timeout(SECONDS_MAX):
            await self.task
        await self.kubernetes.close()


def resource(kind: str, name: str, namespace: str = "default") -> Json:
    return manifest(APIS[kind], name, {"zookeeper": {"connect": "zk:2181"}}, namespace=namespace)


def scenario(play: Callable[[ApiServer], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with ApiServer() as server:
            await play(server)

    asyncio.run(whole())


@told_by(scenario)
async def test_events_wake_reconcilers_and_nothing_is_left_on_resources(server: ApiServer) -> None:
    server.objects.create(resource("Topic", "old"))
    running = Running(server)
    await running.woken_for(Key("Topic", "default", "old"))
    server.objects.create(resource("Cluster", "new"))
    await running.woken_for(Key("Cluster", "default", "new"))
    # What belongs to a Cluster wakes it too.
    labels = {"odradek.io/cluster": "new", "app.kubernetes.io/managed-by": "odradek-operator"}
    server.objects.create(manifest(STATEFUL_SETS, "s", {}, labels=labels))
    await running.woken_for(Key("Cluster", "default", "new"))
    await running.end()
    for api, name in ((TOPICS, "old"), (CLUSTERS, "new")):
        body = server.objects.get(api, "default", name)
        assert body is not None and body["status"]["conditions"][0]["reason"] == "Fine"
        assert "finalizers" not in body["metadata"] and "annotations" not in body["metadata"]
    made = server.objects.get(STATEFUL_SETS, "default", "s")
    assert made is not None and "annotations" not in made["metadata"]


@told_by(scenario)
async def test_what_a_mirror_is_made_of_wakes_it_and_no_cluster(server: ApiServer) -> None:
    # Without the Mirror itself, so that nothing else wakes it.
    running = Running(server)
    key = Key("Mirror", "default", "copy")
    labels = {"odradek.io/mirror": "copy", "app.kubernetes.io/managed-by": "odradek-operator"}
    for api in (DEPLOYMENTS, CONFIG_MAPS):
        server.objects.create(manifest(api, "copy-mirror", labels=labels))
        await running.woken_for(key)
        server.objects.delete(api, "default", "copy-mirror", uid=None, orphan=False)
        await running.woken_for(key)
    assert running.seen.empty()
    await running.end()


@told_by(scenario)
async def test_a_request_on_a_pod_wakes_its_cluster(server: ApiServer) -> None:
    labels = {
        "odradek.io/cluster": "new",
        "app.kubernetes.io/component": "broker",
        "app.kubernetes.io/managed-by": "odradek-operator",
    }
    # Without the Cluster itself, so that nothing else wakes it.
    running = Running(server)
    await eventually("pods are watched", lambda: server.watched, lambda seen: PODS.plural in seen)
    for pod in ("new-broker-0", "new-broker-1", "last-broker-0"):
        asks = {"odradek.io/replace": "true"} if pod == "last-broker-0" else {}
        of = {**labels, "odradek.io/cluster": pod.partition("-")[0]}
        server.objects.create(manifest(PODS, pod, labels=of, annotations=asks))
    await running.woken_for(Key("Cluster", "default", "last"))
    assert running.seen.empty(), "nobody has asked for anything of the other Cluster"
    asked = {"metadata": {"annotations": {"odradek.io/replace": "true"}}}
    server.objects.merge(PODS, "default", "new-broker-1", asked)
    await running.woken_for(Key("Cluster", "default", "new"))
    await running.end()


@told_by(scenario)
async def test_a_namespace_that_refuses_is_left_out_and_taken_back(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one whose Role is gone; a deleted namespace takes the Role with it."""
    monkeypatch.setattr("odradek_operator.main.watching.WATCH_SECONDS", 1)
    monkeypatch.setattr("odradek_operator.main.watches.PAUSE_SECONDS_MAX", 1.0)
    running = Running(server, replace(SETTINGS, namespaces=("ending", "default")))
    for namespace in ("ending", "default"):
        server.objects.create(resource("Topic", "a", namespace))
        await running.woken_for(Key("Topic", namespace, "a"))
    await eventually("it is ready", lambda: running.ask("/readyz"), lambda seen: seen[0] == 200)
    refused = [("GET", api.path("ending")) for api in (*CHILDREN, TOPICS, CLUSTERS, MIRRORS)]
    server.refusals |= dict.fromkeys(refused, 403)
    told = 'odradek_operator_namespace_left_out{namespace="ending"} 1.0'
    await eventually("the metrics name it", lambda: running.ask("/metrics"), lambda answer: told in answer[1])
    assert (await running.ask("/readyz"))[0] == 200
    events = await eventually(
        "an event names it",
        lambda: server.objects.list(EVENTS, "system"),
        lambda found: any("the namespace ending is left out" in event["message"] for event in found),
    )
    assert {event["involvedObject"]["kind"] for event in events} == {"Lease"}
    server.objects.create(resource("Topic", "b"))
    await running.woken_for(Key("Topic", "default", "b"))
    await running.operator.resync(TOPICS)
    await running.woken_for(Key("Topic", "default", "b"))
    server.objects.create(resource("Topic", "b", "ending"))
    server.refusals.clear()
    await running.woken_for(Key("Topic", "ending", "b"))
    await eventually(
        "it is taken back", lambda: running.ask("/metrics"), lambda answer: told not in answer[1]
    )
    await running.end()


@pytest.mark.parametrize("api", [api for api in CHILDREN if api != PODS], ids=lambda api: api.plural)
@told_by(scenario)
async def test_a_deleted_object_wakes_the_cluster_that_owns_it(server: ApiServer, api: Api) -> None:
    key = Key("Cluster", "default", "new")
    labels = {"odradek.io/cluster": "new", "app.kubernetes.io/managed-by": "odradek-operator"}
    server.objects.create(manifest(api, "new-made", labels=labels))
    # Without the Cluster itself, and long before the resync.
    running = Running(server)
    await running.woken_for(key)
    assert running.seen.empty()
    server.objects.delete(api, "default", "new-made", uid=None, orphan=False)
    await running.woken_for(key)
    server.objects.create(manifest(api, "somebody-s", labels={"odradek.io/cluster": "new"}))
    server.objects.create(manifest(api, "last", labels={**labels, "odradek.io/cluster": "last"}))
    await running.woken_for(Key("Cluster", "default", "last"))
    assert running.seen.empty(), "an object that is not the operator's wakes nobody"
    await running.end()


@told_by(scenario)
async def test_probes_and_measures(server: ApiServer) -> None:
    server.objects.create(resource("Topic", "a"))
    running = Running(server)
    await running.woken_for(Key("Topic", "default", "a"))
    await eventually("the operator is ready", lambda: running.ask("/readyz"), lambda seen: seen[0] == 200)
    assert (await running.ask("/healthz"))[0] == 200
    _, text = await running.ask("/metrics")
    assert (
        'odradek_resource_condition{condition="Ready",kind="Topic",name="a",namespace="default"} 1.0' in text
    )
    assert 'odradek_operator_reconciles_total{kind="Topic",outcome="done"}' in text
    assert "odradek_operator_leading 1" in text and "process_resident_memory_bytes" in text
    await running.end()


@told_by(scenario)
async def test_an_operator_is_not_ready_before_it_knows_whether_it_leads(server: ApiServer) -> None:
    """Else a probe finds it ready, and in the next moment not, as its first watches have no answer yet."""
    asked = ("POST", LEASES.path("system"))
    server.refusals[asked] = 503
    running = Running(server, replace(SETTINGS, lease_seconds=1))
    await eventually("the Lease is asked for", lambda: server.requests, lambda seen: asked in seen)
    assert await running.ask("/readyz") == (503, "whether another holds the Lease is not known yet\n")
    server.refusals.clear()
    await eventually("it leads", lambda: running.ask("/readyz"), lambda seen: seen[0] == 200)
    await running.end()


@told_by(scenario)
async def test_a_dead_watch_is_noticed_and_begun_again(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Its requests are longer than it may be silent.
    monkeypatch.setattr("odradek_operator.main.watches.SILENT_SECONDS_MAX", 1.0)
    monkeypatch.setattr("odradek_operator.main.watches.PAUSE_SECONDS_MAX", 0.5)
    monkeypatch.setattr(NamespaceWatches, "_end_when_deaf", lambda self: asyncio.Event().wait())
    server.silent = True
    running = Running(server)
    await eventually("Topics are watched", lambda: server.watched, lambda seen: TOPICS.plural in seen)
    server.objects.create(resource("Topic", "a"))
    # The watch does not bring it; the next one begins with a list.
    await eventually(
        "it is not ready", lambda: running.ask("/readyz"), lambda seen: "had no answer" in seen[1]
    )
    await running.woken_for(Key("Topic", "default", "a"))
    await running.end()


@told_by(scenario)
async def test_a_second_replica_takes_over_from_one_that_hears_nothing(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("odradek_operator.main.watches.SILENT_SECONDS_MAX", 2.0)
    running = Running(server, replace(SETTINGS, identity="deaf"))
    server.objects.create(resource("Topic", "a"))
    await running.woken_for(Key("Topic", "default", "a"))
    # Answered once, and never again.
    async with asyncio.timeout(SECONDS_MAX):
        with pytest.raises(WatchesEnded):
            await running.task
    await running.kubernetes.close()
    lease = server.objects.get(LEASES, "system", "odradek-operator")
    assert lease is not None and not lease["spec"]["holderIdentity"]
    second = Running(server, replace(SETTINGS, identity="two"))
    await second.woken_for(Key("Topic", "default", "a"))
    await second.end()


@told_by(scenario)
async def test_a_lease_is_handed_back_after_a_renewal_without_its_answer(server: ApiServer) -> None:
    """The end of the process cancelled the request when it was written already."""
    async with gateway_to(server.url) as kubernetes:
        lease = OperatorLease(kubernetes, namespace="system", name="odradek-operator", identity="one")
        await lease.acquire()
        found = await kubernetes.get(LEASES, "system", "odradek-operator")
        assert found is not None
        await kubernetes.replace(
            {**found, "spec": {**found["spec"], "renewTime": "2026-01-01T00:00:00.000000Z"}}
        )
        await lease.release()
        left = server.objects.get(LEASES, "system", "odradek-operator")
        assert left is not None and left["spec"]["holderIdentity"] == ""
        # Of another holder nothing is handed back.
        await lease.acquire()
        found = await kubernetes.get(LEASES, "system", "odradek-operator")
        assert found is not None
        await kubernetes.replace({**found, "spec": {**found["spec"], "holderIdentity": "two"}})
        await lease.release()
        left = server.objects.get(LEASES, "system", "odradek-operator")
        assert left is not None and left["spec"]["holderIdentity"] == "two" and not lease.is_held


@told_by(scenario)
async def test_one_has_the_lease_and_the_other_takes_over_when_it_stops(server: ApiServer) -> None:
    async with gateway_to(server.url) as kubernetes:
        first, second = (
            OperatorLease(kubernetes, namespace="system", name="odradek-operator", identity=one, seconds=6)
            for one in ("one", "two")
        )
        await first.acquire()
        keeping = asyncio.ensure_future(first.keep())
        waiting = asyncio.ensure_future(second.acquire())
        # Longer than a holder that is silent keeps it.
        await asyncio.wait({waiting}, timeout=7)
        assert first.is_held and not waiting.done() and not keeping.done()
        keeping.cancel()
        await first.release()
        async with asyncio.timeout(SECONDS_MAX):
            await waiting
        lease = server.objects.get(LEASES, "system", "odradek-operator")
        assert lease is not None and lease["spec"]["holderIdentity"] == "two"
        assert lease["spec"]["leaseTransitions"] == 1


@told_by(scenario)
async def test_a_holder_that_is_silent_is_followed_after_the_length_of_its_lease(server: ApiServer) -> None:
    async with gateway_to(server.url) as kubernetes:
        loop = asyncio.get_running_loop()
        place = {"namespace": "system", "name": "odradek-operator"}
        await OperatorLease(kubernetes, **place, identity="dead", seconds=1).acquire()
        began = loop.time()
        await OperatorLease(kubernetes, **place, identity="heir", seconds=1).acquire()
        assert loop.time() - began >= 1


@told_by(scenario)
async def test_a_holder_without_a_pod_is_followed_before_its_lease_ends(server: ApiServer) -> None:
    server.objects.create(manifest(PODS, "old", namespace="system"))
    place: dict[str, Any] = {"namespace": "system", "name": "odradek-operator", "seconds": 8}
    path = ("GET", PODS.path("system", "old"))
    async with gateway_to(server.url) as kubernetes:
        await OperatorLease(kubernetes, **place, identity="old", pod="old").acquire()
        # As long as the pod is there, or may not be read, the holder keeps it.
        for refusal in (None, 403):
            heir = asyncio.ensure_future(
                OperatorLease(kubernetes, **place, identity="new", pod="new").acquire()
            )
            if refusal is not None:
                server.refusals[path] = refusal
            asked = server.requests.count(path)
            await eventually("the pod is asked for", partial(server.requests.count, path), asked.__lt__)
            assert not heir.done()
            heir.cancel()
        server.refusals.clear()
        server.objects.delete(PODS, "system", "old", uid=None, orphan=False)
        asked = server.requests.count(path)
        heir = asyncio.ensure_future(OperatorLease(kubernetes, **place, identity="new", pod="new").acquire())
        async with asyncio.timeout(SECONDS_MAX):
            await heir
        assert server.requests.count(path) == asked + 1, "it was taken because the pod is gone"
        lease = server.objects.get(LEASES, "system", "odradek-operator")
        assert lease is not None and lease["spec"]["holderIdentity"] == "new"
        assert lease["metadata"]["annotations"] == {HOLDER_POD: "new"}


@told_by(scenario)
async def test_kopf_that_ends_by_itself_for_long_ends_the_process(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def end(**_: object) -> None:
        pass

    monkeypatch.setattr(kopf, "operator", end)
    monkeypatch.setattr("odradek_operator.main.watches.SILENT_SECONDS_MAX", 0.5)
    running = Running(server, SETTINGS)
    async with asyncio.timeout(SECONDS_MAX):
        with pytest.raises(WatchesEnded, match="ended by themselves"):
            await running.task
    await running.kubernetes.close()


@told_by(scenario)
async def test_a_process_that_loses_the_lease_ends(server: ApiServer) -> None:
    running = Running(server, replace(SETTINGS, lease_seconds=5))
    server.objects.create(resource("Topic", "a"))
    await running.woken_for(Key("Topic", "default", "a"))
    lease = server.objects.get(LEASES, "system", "odradek-operator")
    assert lease is not None
    lease["spec"]["holderIdentity"] = "a thief"
    lease["metadata"].pop("resourceVersion")
    server.objects.replace(lease)
    async with asyncio.timeout(SECONDS_MAX):
        with pytest.raises(LeaseLost, match="a thief"):
            await running.task
    await running.kubernetes.close()
    kept = server.objects.get(LEASES, "system", "odradek-operator")
    assert kept is not None and kept["spec"]["holderIdentity"] == "a thief"


@told_by(scenario)
async def test_a_lease_that_cannot_be_renewed_ends_it_too(server: ApiServer) -> None:
    running = Running(server, replace(SETTINGS, lease_seconds=3))
    server.objects.create(resource("Topic", "a"))
    await running.woken_for(Key("Topic", "default", "a"))
    server.refusals["PUT", LEASES.path("system", "odradek-operator")] = 500
    async with asyncio.timeout(SECONDS_MAX):
        with pytest.raises(LeaseLost, match="could not be renewed"):
            await running.task
    await running.kubernetes.close()


@told_by(scenario)
async def test_finalizers_can_be_taken_off_without_an_operator(server: ApiServer) -> None:
    kept, other = resource("Topic", "kept"), resource("Topic", "other")
    kept["metadata"]["finalizers"] = [CLEANUP_FINALIZER, "example.com/theirs"]
    server.objects.create(kept)
    server.objects.create(other)
    said: list[str] = []
    async with gateway_to(server.url) as kubernetes:
        assert await strip(kubernetes, (), say=said.append) == 1
    assert said == ["Topic default/kept"]
    body = server.objects.get(TOPICS, "default", "kept")
    assert body is not None and body["metadata"]["finalizers"] == ["example.com/theirs"]


def test_an_api_server_that_is_not_there_is_a_sentence_and_no_trace(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    kubeconfig = tmp_path / "config"
    kubeconfig.write_text(
        json.dumps(
            {
                "current-context": "c",
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
                "users": [{"name": "u", "user": {"token": "t"}}],
            }
        )
    )
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    ended = CliRunner().invoke(main, ["strip-finalizers"])
    assert ended.exit_code == 1
    assert "the API server cannot be reached" in ended.output and "Traceback" not in ended.output
