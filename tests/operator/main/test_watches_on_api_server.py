"""The operator's watches on a real API server, with the rights that the chart gives and no others."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import aiohttp
import kopf
import pytest

from helm.generate.yaml_text import read_documents, write_documents
from odradek_operator.foundation.keys import Key
from odradek_operator.foundation.settings import OperatorSettings
from odradek_operator.gateways.kubernetes import EVENTS, PODS, TOPICS, Json
from odradek_operator.handlers.events import CHILDREN
from odradek_operator.main.process import Operator
from odradek_operator.reconcilers.reconciler import Environment, Reconciler
from tests.operator.support.gateway import gateway_to
from tests.operator.support.world import manifest
from tests.support.kubernetes_api import TOKEN, ApiServer, running_api_server
from tests.support.polling import SECONDS_MAX, eventually, wait_until
from tests.support.stories import in_real_time

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.thorough]

RIGHTS = Path(__file__).parents[3] / "manifests" / "operator" / "one-namespace.yaml"
HOME, OTHER = "odradek", "other"
LABELS = {"app.kubernetes.io/managed-by": "odradek-operator", "odradek.io/cluster": "events"}
CONTAINER = {"name": "broker", "image": "odradek:0"}
SPECS: Mapping[str, Json] = {
    "StatefulSet": {"serviceName": "events"},
    "Deployment": {},
    "Service": {"ports": [{"port": 9092}]},
    "PodDisruptionBudget": {"maxUnavailable": 0, "selector": {"matchLabels": LABELS}},
    "NetworkPolicy": {"podSelector": {}},
    "Pod": {"containers": [CONTAINER]},
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with running_api_server(tmp_path_factory.mktemp("api-server")) as running:
        running.install_definitions()
        running.kubectl("apply", "--filename", str(RIGHTS))
        grant(running, HOME)
        yield running


def grant(server: ApiServer, namespace: str) -> None:
    """Give the operator's account in a namespace what the chart gives it in its own."""
    rights = []
    for document in read_documents(RIGHTS.read_text()):
        if document["kind"] in ("Role", "RoleBinding") and document["metadata"]["name"] == "odradek-operator":
            document["metadata"]["namespace"] = namespace
            rights.append(document)
    with suppress(subprocess.CalledProcessError):
        server.kubectl("create", "namespace", namespace)
    server.kubectl("apply", "--filename", "-", given=write_documents(rights))
    asked = (
        "auth",
        "can-i",
        "watch",
        "pods",
        "-n",
        namespace,
        "--as",
        f"system:serviceaccount:{HOME}:odradek-operator",
    )
    wait_until("it may watch", partial(server.kubectl, *asked), not_yet=subprocess.CalledProcessError)


class Noting:
    """A reconciler that notes what it was woken for."""

    def __init__(self, seen: set[Key]) -> None:
        self._seen = seen

    async def reconcile(self, key: Key) -> float | None:
        self._seen.add(key)
        return None


class Running:
    def __init__(self, operator: Operator, seen: set[Key]) -> None:
        self._operator = operator
        self.seen = seen

    async def ask(self, path: str) -> str:
        url = f"http://127.0.0.1:{self._operator.http.port}{path}"
        async with aiohttp.ClientSession() as session, session.get(url) as answer:
            return await answer.text()

    async def woken_for(self, key: Key) -> None:
        await eventually(f"{key} is looked at", lambda: self.seen, lambda seen: key in seen)
        self.seen.clear()


@asynccontextmanager
async def running(server: ApiServer) -> AsyncIterator[Running]:
    """An operator with the chart's rights, until the block ends."""
    seen: set[Key] = set()

    def reconcilers(_: Environment) -> Mapping[str, Reconciler]:
        return {"Cluster": Noting(seen), "Topic": Noting(seen), "Mirror": Noting(seen)}

    token = server.kubectl("create", "token", "odradek-operator", "--namespace", HOME).strip()
    async with gateway_to(server.url, token=token) as kubernetes:
        operator = Operator(
            OperatorSettings(namespaces=(HOME, OTHER), home=HOME, http_host="127.0.0.1", http_port=0),
            kubernetes,
            reconcilers=reconcilers,
            login=lambda: kopf.ConnectionInfo(server=server.url, token=token, insecure=True),
        )
        stop = asyncio.Event()
        task = asyncio.ensure_future(operator.run(stop))
        await eventually(
            "it serves", lambda: operator.http.port, lambda port: port > 0, not_yet=AssertionError
        )
        try:
            yield Running(operator, seen)
        finally:
            stop.set()
            async with asyncio.timeout(SECONDS_MAX):
                await task


def spec_of(kind: str) -> Json:
    if kind not in ("StatefulSet", "Deployment"):
        return SPECS.get(kind, {})
    template = {"metadata": {"labels": LABELS}, "spec": {"containers": [CONTAINER]}}
    return {**SPECS[kind], "selector": {"matchLabels": LABELS}, "template": template}


@in_real_time
async def test_what_a_cluster_is_made_of_wakes_it_with_the_charts_rights(server: ApiServer) -> None:
    grant(server, OTHER)
    key = Key("Cluster", HOME, "events")
    async with gateway_to(server.url, token=TOKEN) as person, running(server) as operator:
        await eventually("it is ready", lambda: operator.ask("/readyz"), lambda said: said == "ready\n")
        for api in CHILDREN:
            asks = {"odradek.io/replace": "true"} if api == PODS else {}
            made = manifest(
                api, "events-it", spec_of(api.kind), namespace=HOME, labels=LABELS, annotations=asks
            )
            await person.create(made)
            await operator.woken_for(key)
            assert await person.delete(api, HOME, "events-it", force=True)
            await operator.woken_for(key)
            await asyncio.sleep(0.2)  # a pod and a set may be changed once more before they are gone
            operator.seen.clear()
            await person.create({**made, "metadata": {**made["metadata"], "name": "theirs", "labels": {}}})
        await person.create(manifest(TOPICS, "last", {"cluster": "events"}, namespace=HOME))
        await eventually("a Topic", lambda: operator.seen, lambda seen: Key("Topic", HOME, "last") in seen)
        assert key not in operator.seen, "what is not the operator's wakes nobody"


@in_real_time
async def test_a_namespace_without_its_role_is_left_out_and_taken_back(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("odradek_operator.main.watching.WATCH_SECONDS", 2)
    monkeypatch.setattr("odradek_operator.main.watches.PAUSE_SECONDS_MAX", 2.0)
    grant(server, OTHER)
    left_out = f'odradek_operator_namespace_left_out{{namespace="{OTHER}"}} 1.0'
    async with gateway_to(server.url, token=TOKEN) as person, running(server) as operator:
        await eventually("it is ready", lambda: operator.ask("/readyz"), lambda said: said == "ready\n")
        for number, gone in enumerate(("role", "namespace")):
            # Nothing ends a deleted namespace here, so its content goes by hand: as with the Role in it.
            name = f"t{number}"
            server.kubectl("delete", "role", "odradek-operator", "--namespace", OTHER)
            if gone == "namespace":
                server.kubectl("delete", "rolebinding", "odradek-operator", "--namespace", OTHER)
            await eventually(
                "it is left out", lambda: operator.ask("/metrics"), lambda said: left_out in said
            )
            assert await operator.ask("/readyz") == "ready\n"
            for namespace in (HOME, OTHER):
                await person.create(manifest(TOPICS, name, {"cluster": "events"}, namespace=namespace))
            await operator.woken_for(Key("Topic", HOME, name))
            events = await person.list(EVENTS, HOME)
            assert any(f"the namespace {OTHER} is left out" in event["message"] for event in events)
            grant(server, OTHER)
            await operator.woken_for(Key("Topic", OTHER, name))
            await eventually(
                "it is back", lambda: operator.ask("/metrics"), lambda said: left_out not in said
            )
