"""Every rule of the definitions refuses on a real API server what it is there to refuse, with its own words.

Each case is a resource, and a change that the API server must refuse, in a new resource or an edit. A rule of a
definition without a case fails the last test.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from e2e.console_rules import console_cases
from e2e.kube import Kube, KubectlError, Resource

CLUSTER: dict[str, Any] = {
    "zookeeper": {"servers": {"replicas": 3, "storage": {"size": "2Gi", "class": "one"}}},
    "brokers": {"replicas": 3, "storage": {"size": "2Gi", "class": "one"}},
}
POOL: dict[str, Any] = {
    "name": "fast",
    "firstId": 1000,
    "replicas": 2,
    "storage": {"size": "2Gi", "class": "one"},
}
POOLED: dict[str, Any] = {**CLUSTER, "brokers": {**CLUSTER["brokers"], "pools": [POOL]}}
PROCESSES: dict[str, Any] = {**CLUSTER, "brokers": {**CLUSTER["brokers"], "processes": 2}}
ENDS_WITH_44 = {"name": "a", "type": "Internal", "port": 9144}
ELSEWHERE = {"zookeeper": {"connect": "zk:2181/here"}}
TOPIC = {"cluster": "none", "partitions": 4, "replicas": 2}
GROUP = {"cluster": "none", "topics": ["one"], "reset": {"id": "one", "to": {"at": "Earliest"}}}
SCALING = {"messagesPerMember": 1, "max": 2}
PORT = 9094
USER = {"cluster": "none", "name": "u", "secretName": "s", "authentication": {"type": "scram-sha-512"}}
PASSWORD = {"valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}
BLANK_KEY = {"valueFrom": {"secretKeyRef": {"name": "s", "key": "a b"}}}
ALIAS = {"alias": "a", "bootstrap": "a:9092"}
MIRROR: dict[str, Any] = {"target": {"cluster": "none"}, "sources": [ALIAS]}
INGRESS: dict[str, Any] = {
    "name": "a",
    "type": "Ingress",
    "port": PORT,
    "tls": True,
    "bootstrapHost": "all.example.com",
    "advertisedHost": "one-{broker}.example.com",
}
LISTENERS = [{"name": "a", "type": "NodePort", "port": PORT}, {"name": "b", "type": "NodePort", "port": PORT}]

# (kind, what is there or None, the change, a part of the rule's words)
CASES: list[tuple[str, dict[str, Any] | None, dict[str, Any], str]] = [
    ("Topic", TOPIC, {"partitions": 3}, "partitions never shrink"),
    ("Topic", TOPIC, {"cluster": "other"}, "cluster cannot be changed"),
    ("Topic", TOPIC, {"name": "other"}, "name cannot be changed"),
    ("Topic", None, {**TOPIC, "name": ".."}, "must not be . or .."),
    ("Topic", None, {**TOPIC, "name": "__own"}, "the brokers' own topics begin with __"),
    ("Topic", None, {**TOPIC, "config": {"min.insync.replicas": 3}}, "must not be more than replicas"),
    (
        "Topic",
        None,
        {**TOPIC, "config": {"min.compaction.lag.ms": 2, "max.compaction.lag.ms": 1}},
        "must not be more than max.compaction.lag.ms",
    ),
    (
        "Cluster",
        None,
        {**CLUSTER, "runAs": {"assigned": True, "user": 7}},
        "leave out user, group and fsGroup",
    ),
    (
        "Mirror",
        None,
        {**MIRROR, "runAs": {"assigned": True, "group": 7}},
        "leave out user, group and fsGroup",
    ),
    ("User", None, {**USER, "authentication": {"password": BLANK_KEY}}, "must be a key of a Secret"),
    (
        "User",
        None,
        {**USER, "authentication": {"type": "tls", "password": PASSWORD}},
        "a password is for the type scram-sha-512",
    ),
    ("ConsumerGroup", GROUP, {"cluster": "other"}, "cluster cannot be changed"),
    ("ConsumerGroup", GROUP, {"groupId": "other"}, "groupId cannot be changed"),
    (
        "ConsumerGroup",
        None,
        {"cluster": "none", "initialPosition": {"at": "Latest"}},
        "initialPosition needs topics",
    ),
    ("ConsumerGroup", GROUP, {"reset": {"id": "one", "to": {"at": "Latest"}}}, "needs a new id"),
    ("ConsumerGroup", GROUP, {"type": "Share"}, "type cannot be changed"),
    ("ConsumerGroup", None, {**GROUP, "deadLetters": {"topic": "dlq.a"}}, "deadLetters needs type: Share"),
    ("ConsumerGroup", None, {**GROUP, "scaling": SCALING}, "scaling needs workload"),
    (
        "ConsumerGroup",
        None,
        {**GROUP, "replicas": 1, "workload": {"name": "w"}, "scaling": SCALING},
        "scaling and replicas exclude each other",
    ),
    *console_cases(CLUSTER),
    (
        "ConsumerGroup",
        None,
        {"cluster": "none", "members": {"min": 2, "max": 1}},
        "min must not be more than max",
    ),
    (
        "ConsumerGroup",
        None,
        {**GROUP, "initialPosition": {"at": "Timestamp"}},
        "at: Timestamp needs timestamp",
    ),
    ("ConsumerGroup", None, {**GROUP, "initialPosition": {"at": "Duration"}}, "at: Duration needs duration"),
    (
        "ConsumerGroup",
        None,
        {**GROUP, "reset": {"id": "a", "to": {"at": "Duration"}}},
        "at: Duration needs duration",
    ),
    ("Cluster", None, {**CLUSTER, "listeners": LISTENERS}, "two listeners have the same port"),
    (
        "Cluster",
        PROCESSES,
        {"brokers": {**CLUSTER["brokers"], "processes": 1}},
        "processes cannot be lowered",
    ),
    (
        "Cluster",
        None,
        {**PROCESSES, "listeners": LISTENERS[:1]},
        "each broker of a pod has a port of its own",
    ),
    ("Cluster", None, {**PROCESSES, "listeners": [ENDS_WITH_44]}, "the last two digits of listeners' ports"),
    ("Cluster", None, {"zookeeper": {}}, "give either spec.zookeeper.connect"),
    (
        "Cluster",
        CLUSTER,
        {"zookeeper": {"connect": "zk:2181", "servers": None}},
        "cannot move to another ZooKeeper",
    ),
    ("Cluster", ELSEWHERE, {"zookeeper": {"connect": "zk:2181/there"}}, "the path in spec.zookeeper.connect"),
    ("Cluster", CLUSTER, {"zookeeper": {"servers": {"replicas": 0}}}, "spec.zookeeper.servers.replicas"),
    ("Cluster", CLUSTER, {"zookeeper": {"servers": {"replicas": 4}}}, "an even number of ZooKeeper servers"),
    ("Cluster", None, {"zookeeper": {"servers": {"replicas": 2}}}, "an even number of ZooKeeper servers"),
    (
        "Cluster",
        CLUSTER,
        {"zookeeper": {"servers": {"storage": {"class": "two"}}}},
        "spec.zookeeper.servers.storage.class cannot be changed",
    ),
    (
        "Cluster",
        CLUSTER,
        {"brokers": {"storage": {"class": "two"}}},
        "spec.brokers.storage.class cannot be changed",
    ),
    ("Cluster", CLUSTER, {"brokers": {"storage": {"size": "1Gi"}}}, "volumes can grow, not shrink"),
    (
        "Cluster",
        CLUSTER,
        {"brokers": {"config": {"min.insync.replicas": 4}}},
        "min.insync.replicas must not be above the number of brokers",
    ),
    (
        "Cluster",
        CLUSTER,
        {"brokers": {"replicas": 5, "config": {"min.insync.replicas": 4}}},
        "which is 3 unless it is given",
    ),
    (
        "Cluster",
        CLUSTER,
        {"brokers": {"config": {"min.insync.replicas": 3, "default.replication.factor": 2}}},
        "must not be above default.replication.factor",
    ),
    *(
        (
            "Cluster",
            CLUSTER,
            {"brokers": {"config": {key: 4}}},
            f"{key} must not be above the number of brokers",
        )
        for key in (
            "default.replication.factor",
            "offsets.topic.replication.factor",
            "transaction.state.log.replication.factor",
        )
    ),
    (
        "Cluster",
        CLUSTER,
        {"listeners": [{"name": "a", "type": "Internal", "port": PORT, "advertisedHost": "{nodeIP}"}]},
        "leave {nodeIP} out of advertisedHost",
    ),
    (
        "Cluster",
        None,
        {**CLUSTER, "listeners": [{"name": "http", "type": "NodePort", "port": PORT}]},
        "names of ports that brokers and controllers have already",
    ),
    (
        "Cluster",
        None,
        {**CLUSTER, "internalListener": {"tls": False, "authentication": {"type": "tls"}}},
        "a certificate proves a client's name within TLS only",
    ),
    (
        "Cluster",
        None,
        {**CLUSTER, "internalListener": {"tls": False, "certificate": {"secretName": "s"}}},
        "certificate is for a listener with tls: true",
    ),
    (
        "Cluster",
        CLUSTER,
        {"internalListener": {"tls": True}},
        "internalListener cannot be added or taken away",
    ),
    ("Cluster", CLUSTER, {"authorization": {"type": "acl"}}, "authorization needs names"),
    (
        "Cluster",
        None,
        {**CLUSTER, "certificates": {"renewalDays": 30, "validityDays": 30}},
        "certificates must be renewed before they end",
    ),
    ("User", USER, {"cluster": "other"}, "cluster cannot be changed"),
    ("User", USER, {"name": "other"}, "name cannot be changed"),
    ("User", USER, {"secretName": "other"}, "secretName cannot be changed"),
    (
        "User",
        None,
        {**USER, "acls": [{"resource": {"type": "cluster", "name": "c"}, "operations": ["Describe"]}]},
        "give a name, unless type is cluster",
    ),
    ("Mirror", None, {**MIRROR, "target": {"cluster": "c", "bootstrap": "c:1"}}, "give either cluster"),
    ("Mirror", None, {**MIRROR, "sources": [{**ALIAS, "user": "u"}]}, "user goes with cluster"),
    (
        "Mirror",
        None,
        {**MIRROR, "target": {"cluster": "c", "clientSecret": "s"}},
        "clientSecret goes with bootstrap",
    ),
    ("Mirror", None, {**MIRROR, "target": {"bootstrap": "c:1"}}, "give the target an alias"),
    ("Mirror", None, {**MIRROR, "sources": [ALIAS, ALIAS]}, "two sources have the same alias"),
    ("Mirror", None, {**MIRROR, "sources": [{**ALIAS, "alias": "none"}]}, "has the alias of the target"),
    (
        "Mirror",
        None,
        {**MIRROR, "sources": [{**ALIAS, "alias": "a-b"}], "naming": {"separator": "-"}},
        "an alias holds naming.separator",
    ),
    ("Mirror", None, {**MIRROR, "sources": [{"alias": "a", "cluster": "none"}]}, "is the target itself"),
    (
        "Mirror",
        None,
        {**MIRROR, "target": {"alias": "t", "bootstrap": "a:9092"}},
        "a source has the addresses of the target",
    ),
    ("Mirror", None, {**MIRROR, "config": {"topics": "x"}}, "a key that the Mirror has a field for"),
    (
        "Cluster",
        None,
        {**CLUSTER, "zookeeper": {**ELSEWHERE["zookeeper"], "path": "/a"}},
        "has a path already: leave spec.zookeeper.path out",
    ),
    ("Cluster", None, {**CLUSTER, "zookeeper": {"connect": "zk"}}, "must be a list of servers such as"),
    (
        "Cluster",
        None,
        {**CLUSTER, "zookeeper": {"connect": "zk:2181", "path": "a"}},
        "must be a path such as /NAMESPACE/NAME",
    ),
    (
        "Cluster",
        None,
        {**CLUSTER, "zookeeper": {"servers": {"image": "a b"}}},
        "must be an image's name",
    ),
    (
        "Cluster",
        None,
        {**CLUSTER, "brokers": {"replicas": 3, "storage": {"size": "10GB"}}},
        "must be a quantity such as",
    ),
    (
        "Cluster",
        None,
        {**CLUSTER, "listeners": [{"name": "A", "type": "NodePort", "port": PORT}]},
        "must be a short DNS label",
    ),
    (
        "Cluster",
        None,
        {**CLUSTER, "listeners": [{**LISTENERS[0], "tls": True, "certificate": {"secretName": "S"}}]},
        "must be the name of a Secret",
    ),
    (
        "Cluster",
        None,
        {**CLUSTER, "listeners": [{**LISTENERS[0], "advertisedHost": "{pod}"}]},
        "must be a host name or address",
    ),
    (
        "Cluster",
        None,
        {**CLUSTER, "authorization": {"type": "acl", "superUsers": ["alice"]}},
        "must be a principal",
    ),
    (
        "Cluster",
        None,
        {**CLUSTER, "scalableWorkloads": [{"kind": "Deployment", "name": "A"}]},
        "must be a workload's name",
    ),
    *(
        ("Cluster", POOLED, {"brokers": {"pools": [{**POOL, **change}]}}, words)
        for change, words in (
            ({"name": "other"}, "a new pool cannot have numbers of one that is taken away"),
            ({"firstId": 2000}, "firstId of a pool cannot change"),
            ({"storage": {"size": "2Gi", "class": "two"}}, "storage.class of a pool cannot change"),
        )
    ),
    *(
        ("Cluster", None, {**CLUSTER, "brokers": {**CLUSTER["brokers"], **brokers}}, words)
        for brokers, words in (
            ({"replicas": 127, "pools": [POOL]}, "a Cluster has 1 to 128 brokers"),
            ({"pools": [POOL, {**POOL, "name": "slow", "firstId": 1100}]}, "must be 128 apart at least"),
            ({"pools": [{**POOL, "name": "fast-1"}]}, "a short DNS label that ends with a letter"),
        )
    ),
    *(
        ("Cluster", None, {**CLUSTER, "listeners": [listener]}, words)
        for listener, words in (
            ({**INGRESS, "advertisedHost": "one.example.com"}, "needs advertisedHost with {broker} in it"),
            (
                {**INGRESS, "bootstrapHost": "{broker}"},
                "needs bootstrapHost, the name at which clients begin",
            ),
            ({**INGRESS, "tls": False}, "passes TLS through, and picks the broker by the name in it"),
            ({**INGRESS, "type": "TLSRoute"}, "parentRefs names the gateways of a TLSRoute"),
            ({**LISTENERS[0], "bootstrapHost": "all.example.com"}, "bootstrapHost is for type Ingress"),
            ({**LISTENERS[0], "ingressClassName": "nginx"}, "ingressClassName is for type Ingress"),
        )
    ),
    ("Topic", None, {**TOPIC, "name": "a b"}, "must be a topic's name: letters"),
    ("ConsumerGroup", None, {**GROUP, "topics": ["a b"]}, "must be a topic's name"),
    (
        "ConsumerGroup",
        None,
        {"cluster": "none", "topics": ["one"], "initialPosition": {"at": "Duration", "duration": "1 hour"}},
        "must be a duration such as",
    ),
    ("User", None, {**USER, "name": "a b"}, "must be a user's name"),
    (
        "Mirror",
        None,
        {**MIRROR, "target": {"alias": "t", "bootstrap": "a"}},
        "must be addresses as HOST:PORT",
    ),
    ("Mirror", None, {**MIRROR, "target": {"alias": "a b", "bootstrap": "b:1"}}, "must be an alias"),
    ("Mirror", None, {**MIRROR, "sources": [{**ALIAS, "topics": ["a,b"]}]}, "must be a name or a regular"),
    ("Mirror", None, {**MIRROR, "name": "a b"}, "must be a mirror's name"),
    ("Mirror", None, {**MIRROR, "naming": {"separator": "/"}}, "must be a separator"),
    ("Mirror", MIRROR, {"name": "other"}, "name cannot be changed, since workers would begin again"),
    ("Mirror", MIRROR, {"naming": {"policy": "Identity"}}, "naming cannot be changed"),
]
NAMES = [
    ("Cluster", "1st", CLUSTER, "a Cluster's name begins with a letter"),
    (
        "Cluster",
        "c" * 40,
        {**CLUSTER, "listeners": [{"name": "l" * 13, "type": "NodePort", "port": PORT}]},
        "more than 52 characters together",
    ),
    ("Cluster", "c" * 41, POOLED, "more than 44 characters together"),
    (
        "Cluster",
        "shown",
        {**CLUSTER, "console": {"clusters": [{"name": "shown", "bootstrap": "a:9092"}]}},
        "console.clusters are those beside this Cluster",
    ),
    ("Topic", "t" * 250, TOPIC, "249"),
    ("Mirror", "m" * 41, MIRROR, "a Mirror's name begins with a letter"),
]


@pytest.fixture(scope="module")
def definitions(kube: Kube) -> Kube:
    """A namespace in which nothing is made of what is declared: all of it is paused."""
    kube.run(
        "apply", "-f", "-", stdin='{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "rules"}}'
    )
    return Kube("rules")


def declared(kind: str, name: str, spec: dict[str, Any]) -> Resource:
    metadata = {"name": name, "annotations": {"odradek.io/paused": "true"}}
    return {"apiVersion": "odradek.io/v1", "kind": kind, "metadata": metadata, "spec": spec}


def refusal(kube: Kube, kind: str, there: dict[str, Any] | None, change: dict[str, Any]) -> str:
    """The API server's answer to a new resource, or to an edit of an existing one."""
    with pytest.raises(KubectlError) as refused:
        if there is None:
            new = yaml.safe_dump(declared(kind, "new", change))
            kube.run("create", "--dry-run=server", "-f", "-", stdin=new)
        else:
            name = f"there-{CASES_THERE.index(there)}"
            kube.apply(declared(kind, name, there))
            if kind == "Cluster":
                # As the operator says it of claims that have volumes; it keeps its hands off this one.
                bound = json.dumps({"status": {"boundVolumes": ["broker", "zookeeper"]}})
                kube.run("patch", "cluster", name, "--subresource=status", "--type=merge", "--patch", bound)
            patch = json.dumps({"spec": change})
            kube.run("patch", kind.lower(), name, "--dry-run=server", "--type=merge", "--patch", patch)
    return str(refused.value)


CASES_THERE: list[dict[str, Any]] = [CLUSTER, ELSEWHERE, TOPIC, GROUP, USER, MIRROR, POOLED, PROCESSES]


def test_each_rule_refuses_with_its_own_words(definitions: Kube) -> None:
    heard = ""
    for kind, there, change, words in CASES:
        said = refusal(definitions, kind, there, change)
        assert words in said, f"{kind} {change}: {said}"
        heard += said
    for kind, name, spec, words in NAMES:
        new = yaml.safe_dump(declared(kind, name, spec))
        with pytest.raises(KubectlError) as refused:
            definitions.run("create", "--dry-run=server", "-f", "-", stdin=new)
        assert words in str(refused.value)
        heard += str(refused.value)
    for name, wrong in wrong_settings(schema(definitions, "topics")):
        heard += refusal(definitions, "Topic", None, {**TOPIC, "config": {name: wrong}})
    for name, wrong in wrong_settings(schema(definitions, "consumergroups")):
        heard += refusal(definitions, "ConsumerGroup", None, {**GROUP, "config": {name: wrong}})
    for name, wrong in wrong_settings(schema(definitions, "clusters")):
        brokers = {**CLUSTER["brokers"], "config": {name: wrong}}
        heard += refusal(definitions, "Cluster", None, {**CLUSTER, "brokers": brokers})
    unheard = [words for words in rules(definitions) if words not in heard]
    assert not unheard, f"rules without a case here: {unheard}"
    definitions.delete("clusters,topics,consumergroups,users,mirrors", "--all")


def schema(kube: Kube, kind: str) -> dict[str, Any]:
    """The schema of a definition that is installed, of its resources' `spec`."""
    definition = json.loads(kube.run("get", "crd", f"{kind}.odradek.io", "-o", "json"))
    found: dict[str, Any] = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"][
        "spec"
    ]
    return found


def wrong_settings(spec: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """(key, value that its rule refuses): one for each different rule that a setting has by its declaration.

    They are of four kinds. A key of another resource is refused with the one to write. A number may come as a text,
    which must be in its range. A setting that promises protection must not promise it. What the listeners and the
    authorization of a Cluster say is not said by settings.
    """
    config = spec["properties"].get("brokers", spec)["properties"]["config"]["properties"]
    seen: set[str] = set()
    for name, declared in config.items():
        for rule in declared.get("x-kubernetes-validations", []):
            words = rule["message"]
            if words in seen:
                continue
            seen.add(words)
            if rule["rule"] == "false":
                # A key of another resource, whatever its value is.
                yield name, True if declared.get("type") == "boolean" else 7
            elif number := re.match(r"must be a whole number(?: from (-?\d+))?", words):
                # Without a range only what is no number of 64 bits is refused.
                yield name, str(int(number[1]) - 1) if number[1] else "9999999999999999999"
            elif "promises protection" in words or "cannot be set here" in words:
                by_type = {"boolean": rule["rule"] == "self == false", "integer": 7, "string": "required"}
                yield name, by_type[declared["type"]]


def rules(kube: Kube) -> set[str]:
    """The words of every rule of the definitions that are installed."""
    found: set[str] = set()

    def walk(node: Any) -> None:
        if isinstance(node, dict):
            found.update(rule["message"] for rule in node.get("x-kubernetes-validations", []))
            for part in node.values():
                walk(part)

    for kind in ("clusters", "topics", "consumergroups", "users", "mirrors"):
        walk(schema(kube, kind))
    return found
