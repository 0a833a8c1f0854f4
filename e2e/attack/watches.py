"""Namespaces, rights and the Lease that are taken from the operator while it works."""

from __future__ import annotations

from typing import Any

from e2e.attack.attacks import attack
from e2e.attack.field import ASIDE, ELSEWHERE, Field, of, wait_seconds
from e2e.install import NAMESPACE
from e2e.kube import Kube, condition

OPERATORS = "app.kubernetes.io/name=odradek-operator"
LEASE = "odradek-operator"


def answers(field: Field, namespace: str, seconds_max: float = 90.0) -> None:
    """The operator follows a new resource in a namespace."""
    kube = Kube(namespace)
    name = f"asked-{field.chance.randrange(1_000_000)}"
    kube.apply(of("Topic", name, cluster="none", partitions=1))
    try:
        field.until(
            lambda: bool(condition(kube.get("topic", name) or {}, "Ready")),
            f"the operator looks at a Topic in {namespace}",
            seconds_max,
        )
    finally:
        kube.delete("topic", name)


def lives(field: Field) -> dict[str, int]:
    """How often the container of each of the operator's pods was started again."""
    return {
        pod["metadata"]["name"]: one["restartCount"]
        for pod in field.operator.pods(OPERATORS)
        for one in pod.get("status", {}).get("containerStatuses", ())
    }


@attack("the operator's right to a namespace is taken: it names that, serves the others, and takes it back")
def rights_taken_and_given_back(field: Field) -> None:
    bindings = field.kube.items("rolebinding", OPERATORS)
    assert bindings, "the operator has a RoleBinding there"
    before = lives(field)
    for one in bindings:
        field.kube.delete("rolebinding", one["metadata"]["name"])
    try:
        field.until(
            lambda: f"namespace {NAMESPACE}" in field.events(field.operator),
            "an event names the namespace that is left out",
        )
        answers(field, ELSEWHERE)
    finally:
        field.upgrade_operator()
    answers(field, NAMESPACE)
    assert lives(field) == before, "the operator did not restart"


@attack(
    "a watched namespace is deleted with its Topics and Users: it goes, and is watched again when it is back"
)
def namespace_deleted_and_back(field: Field) -> None:
    before = lives(field)
    kube = Kube(ASIDE)
    kube.apply(
        of("Topic", "left", cluster="none", partitions=1, deletionPolicy="Delete"),
        of("User", "left-too", cluster="none"),
    )
    answers(field, ASIDE)
    kube.delete("namespace", ASIDE, wait=False)
    field.until(lambda: kube.get("namespace", ASIDE) is None, "nothing holds the namespace", 60)
    answers(field, ELSEWHERE)
    kube.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": ASIDE}})
    field.upgrade_operator()
    answers(field, ASIDE)
    assert lives(field) == before, "the operator did not restart"


@attack(
    "a second operator takes over from one that is killed in the middle of a roll, and both keep to one Lease"
)
def second_operator_takes_over(field: Field) -> None:
    field.operator.run("scale", f"deployment/{LEASE}", "--replicas=2")
    try:
        field.until(lambda: len(lives(field)) == 2, "two operators")
        holder = holder_of(field)
        field.kube.run("annotate", "cluster", "demo", f"odradek.io/restart={field.word()}", "--overwrite")
        wait_seconds(5)
        field.operator.kill_pod(holder)
        field.until(lambda: holder_of(field) not in ("", holder), "another one holds the Lease", 60)
        answers(field, NAMESPACE)
        field.whole()
    finally:
        field.operator.run("scale", f"deployment/{LEASE}", "--replicas=1")
        field.until(lambda: len(field.operator.pods(OPERATORS)) == 1, "one operator")


def holder_of(field: Field) -> str:
    return str((field.operator.get("lease", LEASE) or {}).get("spec", {}).get("holderIdentity") or "")


@attack(
    "the Lease is taken by one that is not there, with a clock of the year 2099: the operator gets it back"
)
def lease_stolen(field: Field) -> None:
    spec = {
        "holderIdentity": "stranger",
        "renewTime": "2099-01-01T00:00:00.000000Z",
        "leaseDurationSeconds": 15,
    }
    field.operator.patch("lease", LEASE, {"spec": spec, "metadata": {"annotations": None}})
    field.until(lambda: holder_of(field) not in ("", "stranger"), "an operator holds it again", 120)
    answers(field, NAMESPACE)


@attack("another release of the operator watches the same namespace: no pod is replaced, and nothing flaps")
def two_releases_watch_one_namespace(field: Field) -> None:
    name = "second-operator"
    second = Kube(ELSEWHERE)
    pods = field.pods()
    set_values = ["crds.install=false", f"watch.namespaces={{{NAMESPACE}}}", "upgrade.check=false"]
    try:
        field.helm(
            "install",
            name,
            "helm/odradek-operator",
            "--namespace",
            ELSEWHERE,
            "--wait",
            "--set",
            ",".join(set_values),
        )
        wait_seconds(20)
        answers(field, NAMESPACE)
        versions = [version_of(field)]
        for _ in range(3):
            wait_seconds(5)
            versions.append(version_of(field))
        assert len(set(versions)) <= 2, f"the Cluster is written all the time: {versions}"
    finally:
        field.helm(
            "uninstall", name, "--namespace", ELSEWHERE, "--wait", "--set", "uninstall.stripFinalizers=false"
        )
        second.run("delete", "lease", "--all")
    assert field.pods() == pods


def version_of(field: Field) -> str:
    return str((field.kube.get("cluster", "demo") or {})["metadata"]["resourceVersion"])


@attack(
    "a policy refuses each write of the operator while a roll is asked for: the roll waits, and then ends"
)
def writes_refused(field: Field) -> None:
    policy = "attack-refuses-writes"
    account = "system:serviceaccount:odradek-system:odradek-operator"
    rule: dict[str, Any] = {
        "apiGroups": ["*"],
        "apiVersions": ["*"],
        "resources": ["*/*"],
        "operations": ["CREATE", "UPDATE", "DELETE"],
    }
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": [rule],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}},
        },
        "matchConditions": [{"name": "operator", "expression": f"request.userInfo.username == '{account}'"}],
        "validations": [{"expression": "false", "message": "the attack refuses this"}],
    }
    group = "admissionregistration.k8s.io/v1"
    binding = {"policyName": policy, "validationActions": ["Deny"]}
    before = field.pods()
    field.kube.apply(
        {
            "apiVersion": group,
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": policy},
            "spec": spec,
        },
        {
            "apiVersion": group,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": policy},
            "spec": binding,
        },
    )
    try:
        wait_seconds(5)
        field.kube.run("annotate", "cluster", "demo", f"odradek.io/restart={field.word()}", "--overwrite")
        wait_seconds(30)
        assert field.pods() == before, "no pod is replaced without a record of it"
    finally:
        field.kube.delete("validatingadmissionpolicybinding", policy)
        field.kube.delete("validatingadmissionpolicy", policy)
    field.until(lambda: not set(field.pods().values()) & set(before.values()), "all pods were replaced", 300)


@attack("a webhook that does not answer stands before each change of workloads: a roll waits, and then ends")
def webhook_does_not_answer(field: Field) -> None:
    name = "attack-does-not-answer"
    rules = [
        {
            "apiGroups": ["apps", ""],
            "apiVersions": ["v1"],
            "operations": ["CREATE", "UPDATE", "DELETE"],
            "resources": ["statefulsets", "deployments", "services", "configmaps"],
        }
    ]
    hook = {
        "name": "away.attack.example.com",
        "clientConfig": {"url": "https://10.244.0.1:1/away"},
        "rules": rules,
        "failurePolicy": "Fail",
        "timeoutSeconds": 5,
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}},
    }
    before = field.pods("broker")
    field.kube.apply(
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": name},
            "webhooks": [hook],
        }
    )
    try:
        wait_seconds(3)
        change = {
            "spec": {"brokers": {"config": {"replica.fetch.wait.max.ms": 400 + field.chance.randrange(90)}}}
        }
        field.kube.patch("cluster", "demo", change)
        field.until(
            lambda: not field.is_ready(field.kube, "cluster", "demo"), "the Cluster says that it waits"
        )
        wait_seconds(15)
        assert field.pods("broker") == before
    finally:
        field.kube.delete("validatingwebhookconfiguration", name)
    field.until(
        lambda: not set(field.pods("broker").values()) & set(before.values()), "brokers were replaced", 240
    )
