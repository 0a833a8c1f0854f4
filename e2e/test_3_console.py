"""A console of the first Cluster: made by a field, reached through its Service, and gone with the field.

It shows other clusters beside its own, hides what masks say, and names a cluster that it cannot show.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from e2e.conftest import READY_SECONDS_MAX, declare_topic, named
from e2e.install import BOOTSTRAP
from e2e.kube import Kube, KubectlError, Resource, condition, until

CONSOLE = "demo-console"
# Brokers' pods ask here, in place of those of an ingress controller.
BROKERS = {
    "podSelector": {"matchLabels": {"app.kubernetes.io/component": "broker", "odradek.io/cluster": "demo"}}
}
# The same brokers as of a cluster of others, with a file of its own; and a Cluster that is not there.
OTHERS = [
    {"name": "again", "bootstrap": BOOTSTRAP, "clientSecret": "console-again"},
    {"name": "away", "cluster": "no-such-cluster"},
]
LOGIN = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "console-again"},
    "stringData": {"client.properties": "client.id=console-again\n"},
}
# As a browser does that reaches it by `kubectl port-forward`.
ASK = """\
import sys, urllib.error, urllib.request
request = urllib.request.Request(sys.argv[1], headers={"Host": sys.argv[2]})
try:
    with urllib.request.urlopen(request, timeout=20) as answer:
        print(answer.read().decode())
except urllib.error.HTTPError as refusal:
    print(refusal.code)
"""


@pytest.fixture
def console(kube: Kube) -> Iterator[Resource]:
    """The Cluster, whose console serves."""
    kube.patch("cluster", "demo", {"spec": {"console": {"clients": [BROKERS]}}})
    try:
        yield until(
            lambda: kube.get("cluster", "demo"),
            lambda one: condition(one, "Console").get("status") == "True",
            seconds_max=READY_SECONDS_MAX,
            what="the console serves",
        )
    finally:
        kube.patch("cluster", "demo", {"spec": {"console": None}})


def ask(kube: Kube, path: str, *, host: str = "localhost") -> str:
    """The console's answer to a broker's pod."""
    return kube.inside("demo-broker-0", "python3", "-c", ASK, f"http://{CONSOLE}{path}", host)


def asked(kube: Kube, path: str) -> Resource | None:
    """The same as a document; None where no answer comes: rules of the network follow a new pod after a moment."""
    try:
        found: Resource = json.loads(ask(kube, path))
    except (KubectlError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def test_a_console_is_made_serves_and_goes(kube: Kube, topic: str, console: Resource) -> None:
    assert console["status"]["console"].startswith(f"http://{CONSOLE}.{kube.namespace}.svc.")
    assert condition(console, "Ready")["status"] == "True"
    overview = until(
        lambda: asked(kube, "/api/overview"),
        lambda found: len(found["brokers"]) == 3,
        seconds_max=60,
        what="the console's overview has three brokers",
    )
    assert overview["topics"] > 0, overview
    until(
        lambda: asked(kube, f"/api/topics?text={topic}"),
        lambda found: [row["name"] for row in found["rows"]] == [topic],
        seconds_max=60,
        what="the console lists the topic",
    )
    assert ask(kube, "/healthz", host="whatever.example").strip() == "ok"
    assert ask(kube, "/api/about", host="whatever.example").strip() == "421"
    (pod,) = kube.pods("app.kubernetes.io/component=console")
    assert pod["status"]["containerStatuses"][0]["restartCount"] == 0

    kube.patch("cluster", "demo", {"spec": {"console": None}})
    until(
        lambda: [one for kind in ("deployments", "services") for one in kube.items(kind) if named_so(one)],
        lambda left: not left,
        seconds_max=60,
        what="its Deployment and Service are gone",
    )
    gone = until(
        lambda: kube.get("cluster", "demo"),
        lambda one: condition(one, "Console") == {},
        seconds_max=60,
        what="the Cluster says no more of it",
    )
    assert "console" not in gone["status"]


def test_it_shows_other_clusters_and_hides_what_masks_say(kube: Kube, console: Resource) -> None:
    topic = named("masked")
    declare_topic(kube, topic, partitions=1, replicas=1)
    record = json.dumps({"iban": "DE00", "user": "ann"})
    kube.inside("demo-broker-0", "odradek", "produce", topic, "--bootstrap", BOOTSTRAP, stdin=f"{record}\n")
    kube.apply(LOGIN)
    try:
        masks = [{"topics": [topic], "clusters": ["again"], "value": ["iban"]}]
        kube.patch("cluster", "demo", {"spec": {"console": {"clusters": OTHERS, "masks": masks}}})
        until(
            lambda: asked(kube, "/api/clusters"),
            # The former pod answers until the new one is ready.
            lambda found: (
                [(one["name"], one.get("brokers")) for one in found["clusters"]]
                == [("demo", 3), ("again", 3)]
            ),
            seconds_max=READY_SECONDS_MAX,
            what="the console shows both clusters",
        )
        assert value_at(kube, "demo", topic) == {"iban": "DE00", "user": "ann"}
        assert value_at(kube, "again", topic) == {"iban": "[masked]", "user": "ann"}
        found = until(
            lambda: kube.get("cluster", "demo"),
            lambda one: condition(one, "Console").get("reason") == "ClustersLeftOut",
            seconds_max=60,
            what="the Cluster names the one that is not there",
        )
        said = condition(found, "Console")
        assert said["status"] == "True", said
        assert "away (there is no Cluster no-such-cluster" in said["message"]
        (pod,) = [
            one
            for one in kube.pods("app.kubernetes.io/component=console")
            if "deletionTimestamp" not in one["metadata"]
        ]
        assert pod["status"]["containerStatuses"][0]["restartCount"] == 0
    finally:
        kube.delete("secret", "console-again")


def value_at(kube: Kube, cluster: str, topic: str) -> Resource:
    """The value of the first record of a topic, as the console shows it at a cluster."""
    page = until(
        lambda: asked(kube, f"/api/records?cluster={cluster}&topic={topic}"),
        lambda found: bool(found.get("records")),
        seconds_max=60,
        what=f"the console shows records of {topic} at {cluster}",
    )
    value: Resource = json.loads(page["records"][0]["value"]["text"])
    return value


def named_so(one: Resource) -> bool:
    return bool(one["metadata"]["name"] == CONSOLE)
