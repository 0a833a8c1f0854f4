"""A thousand Topics, what the operator costs when nothing happens, and an operator that is killed at its work."""

from __future__ import annotations

import json
import random
import time
from typing import Any

import pytest
import yaml

from e2e.conftest import READY_SECONDS_MAX, RUN, named
from e2e.install import OPERATOR_NAMESPACE
from e2e.kube import Kube, is_ready, until

TOPICS = 1000
TOPICS_UNDER_FIRE = 60
KILLS = 5
CONVERGE_SECONDS_MAX = 300.0
IDLE_SECONDS = 10.0
IDLE_WINDOWS = 4
OPERATOR = Kube(OPERATOR_NAMESPACE)


def made(kube: Kube, what: str, count: int) -> str:
    """Create Topics that are deleted with their resources; the label selector that finds them."""
    topics = [
        {
            "apiVersion": "odradek.io/v1",
            "kind": "Topic",
            "metadata": {"name": f"{named(what)}-{number}", "labels": {"e2e": named(what)}},
            "spec": {"cluster": "demo", "partitions": 1, "replicas": 1, "deletionPolicy": "Delete"},
        }
        for number in range(count)
    ]
    kube.run("create", "-f", "-", stdin=yaml.dump_all(topics, Dumper=yaml.CSafeDumper), seconds_max=180)
    return f"e2e={named(what)}"


def ready_among(kube: Kube, selector: str) -> int:
    return sum(is_ready(one) for one in kube.items("topics", selector))


def all_deleted(kube: Kube, selector: str) -> None:
    """Delete them with one request, and wait until their topics are gone too."""
    encoded = selector.replace("=", "%3D")
    kube.run(
        "delete", "--raw", f"/apis/odradek.io/v1/namespaces/{kube.namespace}/topics?labelSelector={encoded}"
    )
    until(
        lambda: kube.items("topics", selector),
        lambda left: not left,
        seconds_max=CONVERGE_SECONDS_MAX,
        what="all are gone, with their topics",
    )


def operator_pod() -> str:
    """The operator's pod that works: the one that holds the Lease."""
    lease: dict[str, Any] = json.loads(OPERATOR.run("get", "lease", "odradek-operator", "-o", "json"))
    return str(lease["spec"].get("holderIdentity") or "")


def spent(pod: str) -> tuple[float, float]:
    """Processor seconds that the operator has used, and its resident memory in MB."""
    script = (
        "import os; s = open('/proc/1/stat').read().rpartition(')')[2].split(); t = os.sysconf('SC_CLK_TCK');"
        "print((int(s[11]) + int(s[12])) / t, int(s[21]) * os.sysconf('SC_PAGE_SIZE') / 1e6)"
    )
    used, resident = OPERATOR.inside(pod, "python", "-c", script).split()
    return float(used), float(resident)


@pytest.mark.thorough
def test_a_thousand_topics_become_true(kube: Kube) -> None:
    began = time.monotonic()
    selector = made(kube, "many", TOPICS)
    created = time.monotonic()
    until(
        lambda: ready_among(kube, selector),
        lambda ready: ready == TOPICS,
        seconds_max=CONVERGE_SECONDS_MAX,
        what="all of them are Ready",
    )
    done = time.monotonic()
    print(
        f"\n{TOPICS} Topics: all were Ready {done - created:.1f} s after the last was created, "
        f"{done - began:.1f} s after the first"
    )
    pod = operator_pod()
    shares = []
    for _ in range(IDLE_WINDOWS):  # the first still has what the topics' last changes gave to do
        before, _ = spent(pod)
        time.sleep(IDLE_SECONDS)  # what is measured is time in which nothing happens
        after, resident = spent(pod)
        shares.append(f"{(after - before) / IDLE_SECONDS:.1%}")
    print(f"an idle operator of {TOPICS} Topics: {', '.join(shares)} of a core, {resident:.0f} MB")
    all_deleted(kube, selector)


@pytest.mark.thorough
def test_an_operator_that_is_killed_amid_its_work_finishes_it(kube: Kube) -> None:
    seed = int(RUN, 16)
    print(f"seed {seed}")
    chance = random.Random(seed)
    selector = made(kube, "fire", TOPICS_UNDER_FIRE)
    for _ in range(KILLS):
        time.sleep(chance.uniform(0.0, 1.5))  # somewhere between its writes
        for pod in OPERATOR.items("pods", "app.kubernetes.io/name=odradek-operator"):
            OPERATOR.kill_pod(pod["metadata"]["name"])
    until(
        lambda: ready_among(kube, selector),
        lambda ready: ready == TOPICS_UNDER_FIRE,
        seconds_max=CONVERGE_SECONDS_MAX,
        what="all of them are Ready",
    )
    kube.ready("cluster", "demo", READY_SECONDS_MAX)
    all_deleted(kube, selector)
