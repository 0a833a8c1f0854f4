"""Namespaces, rights and the Lease that are taken from the operator while it works."""

from __future__ import annotations

from e2e.attack.attacks import attack
from e2e.attack.field import ASIDE, ELSEWHERE, Field, of
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
