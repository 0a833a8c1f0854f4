"""What people and other programs change on the operator's objects and resources."""

from __future__ import annotations

import json
import time

from e2e import test_3_many as many
from e2e.attack.attacks import attack
from e2e.attack.field import Field, of, wait_seconds
from e2e.attack.logins import login_of, said_to
from e2e.kube import Resource

SUPPORTING = ("service", "configmap", "poddisruptionbudget", "serviceaccount", "networkpolicy")
PATCHES = 1000
TOPICS = 500
OPERATOR_MEGABYTES_MAX = 150
BACK_SECONDS_MAX = 60.0


def made(field: Field, kind: str) -> list[Resource]:
    """Objects of a kind that the operator has made for the Cluster; records of what is declared are for Users."""
    return [
        one
        for one in field.kube.items(kind, "odradek.io/cluster=demo,!odradek.io/declared")
        if any(owner["kind"] == "Cluster" for owner in one["metadata"].get("ownerReferences", ()))
    ]


def restored(field: Field, before: dict[tuple[str, str], Resource]) -> None:
    """Labels, owners and content are as before."""

    def are_back() -> bool:
        for (kind, name), wanted in before.items():
            now = field.kube.get(kind, name)
            if now is None or _meant(now) != _meant(wanted):
                return False
        return True

    field.until(are_back, f"{len(before)} objects are as they were", BACK_SECONDS_MAX)


def _meant(body: Resource) -> Resource:
    about = body["metadata"]
    return {
        "labels": about.get("labels"),
        "owners": [one["uid"] for one in about.get("ownerReferences", ())],
        "data": body.get("data"),
        "selector": body.get("spec", {}).get("selector"),
    }


@attack(
    "labels, or owners, are taken off every object beside the workloads: they are back, and no pod is replaced"
)
def labels_or_owners_stripped(field: Field) -> None:
    pods = field.pods()
    before = {(kind, one["metadata"]["name"]): one for kind in SUPPORTING for one in made(field, kind)}
    for (kind, name), one in before.items():
        labels = dict.fromkeys(one["metadata"].get("labels", {}))
        field.kube.patch(kind, name, {"metadata": {"labels": labels}})
    restored(field, before)
    for kind, name in before:
        field.kube.patch(kind, name, {"metadata": {"ownerReferences": None}})
    restored(field, before)
    assert field.pods() == pods


@attack("owners are taken off workloads and claims: they are back where they were, and no pod is replaced")
def workloads_disowned(field: Field) -> None:
    pods = field.pods()
    before = {
        (kind, one["metadata"]["name"]): one
        for kind in ("statefulset", "deployment")
        for one in made(field, kind)
    }
    assert len(before) == 3
    for kind, name in before:
        field.kube.patch(kind, name, {"metadata": {"ownerReferences": None}})
    restored(field, before)
    assert field.pods() == pods


@attack(
    "Services select other pods, and ConfigMaps have other settings: both are as declared again, no pod is replaced"
)
def services_and_settings_edited(field: Field) -> None:
    pods = field.pods()
    before = {
        (kind, one["metadata"]["name"]): one for kind in ("service", "configmap") for one in made(field, kind)
    }
    for (kind, name), one in before.items():
        if kind == "service":
            field.kube.patch(kind, name, {"spec": {"selector": {"app": "theirs"}}})
        elif one.get("data"):
            key = field.chance.choice(sorted(one["data"]))
            field.kube.patch(kind, name, {"data": {key: "nonsense"}})
    restored(field, before)
    assert field.pods() == pods


@attack("all objects beside the workloads are deleted at once: they are back, and no pod is replaced")
def objects_deleted(field: Field) -> None:
    pods = field.pods()
    before = {(kind, one["metadata"]["name"]): one for kind in SUPPORTING for one in made(field, kind)}
    for kind in SUPPORTING:
        field.kube.delete(kind, *(name for of_kind, name in before if of_kind == kind))
    restored(field, before)
    assert field.pods() == pods


@attack("the statuses of the Cluster, a Topic and a User are forged: each says the truth again")
def statuses_forged(field: Field) -> None:
    forged = [
        {
            "type": "Ready",
            "status": "False",
            "reason": "Forged",
            "message": "forged",
            "lastTransitionTime": "2020-01-01T00:00:00Z",
        }
    ]
    targets = (("cluster", "demo"), ("topic", "honest"), ("user", "honest"))
    pods = field.pods()
    for kind, name in targets:
        change = json.dumps({"status": {"conditions": forged, "observedGeneration": 999}})
        field.kube.run("patch", kind, name, "--subresource=status", "--type=merge", "--patch", change)
    for kind, name in targets:
        field.until(lambda: field.is_ready(field.kube, kind, name), f"{kind}/{name} is Ready", 90)  # noqa: B023
    assert field.pods() == pods


@attack("a Cluster's status is taken away as by a restore, with its volumes in use: nothing is begun again")
def status_emptied(field: Field) -> None:
    pods = field.pods()
    field.kube.run(
        "patch", "cluster.odradek.io", "demo", "--subresource=status", "--type=json",
        "--patch", json.dumps([{"op": "replace", "path": "/status", "value": {}}]),
    )  # fmt: skip
    field.until(lambda: field.is_ready(field.kube, "cluster", "demo"), "the Cluster is Ready", 120)
    wait_seconds(5)
    field.whole()
    assert field.pods() == pods


@attack(
    "a finalizer of another program holds a deleted Topic and User: what is ours goes, and the rest when it lets go"
)
def finalizers_of_others(field: Field) -> None:
    name = field.word()
    theirs = {"metadata": {"finalizers": ["example.com/theirs"]}}
    field.kube.apply(
        of("Topic", name, cluster="demo", partitions=1, replicas=1, deletionPolicy="Delete"),
        of("User", name, cluster="demo"),
    )
    field.kube.ready("topic", name, 60)
    field.kube.ready("user", name, 60)
    for kind in ("topic", "user"):
        field.kube.patch(kind, name, theirs)
        field.kube.delete(kind, name, wait=False)
    wait_seconds(10)
    assert field.is_ready(field.kube, "cluster", "demo")
    for kind in ("topic", "user"):
        field.kube.patch(kind, name, {"metadata": {"finalizers": None}})
    field.until(lambda: name not in field.as_admin("topics", "list"), "the topic is gone", 90)
    field.until(lambda: name not in field.as_admin("users", "list"), "the user is gone", 90)


@attack("the record of declared Users is deleted, and then a User: its login is gone all the same")
def record_of_users_deleted(field: Field) -> None:
    name = field.word()
    field.kube.apply(of("User", name, cluster="demo"))
    field.kube.ready("user", name, 60)
    login = login_of(field.kube, name)
    assert said_to(field, *login) == "yes"
    field.kube.delete("configmap", "demo-declared-users")
    field.kube.delete("user", name)
    field.until(lambda: name not in field.as_admin("users", "list"), "the user is gone", 60)
    assert said_to(field, *login) == "no"


@attack("a Topic is patched 1,000 times in seconds: it has the last value, and others are followed")
def topic_patched_often(field: Field) -> None:
    name = field.word()
    field.kube.apply(of("Topic", name, cluster="demo", partitions=1, replicas=1, deletionPolicy="Delete"))
    field.kube.ready("topic", name, 60)
    last = 3_600_000 + PATCHES - 1
    field.patch_often(
        "topics", name, [{"spec": {"config": {"retention.ms": 3_600_000 + n}}} for n in range(PATCHES)]
    )
    field.kube.ready("topic", name, 60)
    described = field.as_admin("configs", "describe", "topic", name)
    assert str(last) in described, described
    field.kube.delete("topic", name)
    field.until(lambda: name not in field.as_admin("topics", "list"), "the topic is gone", 90)


@attack("500 Topics are made, changed and deleted at once: all become so, and the operator stays small")
def five_hundred_topics(field: Field) -> None:
    began = time.monotonic()
    selector = many.made(field.kube, "many", TOPICS)
    made_after = time.monotonic() - began
    field.until(lambda: many.ready_among(field.kube, selector) == TOPICS, "all are Ready", 300)
    ready_after = time.monotonic() - began

    began = time.monotonic()
    names = [one["metadata"]["name"] for one in field.kube.items("topics", selector)]
    field.patch_each("topics", names, {"spec": {"config": {"retention.ms": 7_200_000}}})
    patched_after = time.monotonic() - began
    field.until(lambda: many.ready_among(field.kube, selector) == TOPICS, "all are changed", 300)
    changed_after = time.monotonic() - began
    described = field.as_admin("configs", "describe", "topic", field.chance.choice(names))
    assert "7200000" in described, described
    _, megabytes = many.spent(many.operator_pod())

    began = time.monotonic()
    many.all_deleted(field.kube, selector)
    deleted_after = time.monotonic() - began
    print(
        f"{TOPICS} Topics: Ready in {ready_after:.1f} s ({made_after:.1f} of them kubectl), changed in "
        f"{changed_after:.1f} s ({patched_after:.1f} to ask for it), deleted in {deleted_after:.1f} s; "
        f"the operator has {megabytes:.0f} MB",
        flush=True,
    )
    assert megabytes <= OPERATOR_MEGABYTES_MAX


@attack("the Cluster is deleted and leaves all that it has made, and is applied again: it takes all of it up")
def cluster_orphans_its_objects(field: Field) -> None:
    pods = field.pods()
    field.kube.run("delete", "cluster.odradek.io", "demo", "--cascade=orphan")
    wait_seconds(5)
    field.upgrade_cluster()
    field.until(lambda: field.is_ready(field.kube, "cluster", "demo"), "the Cluster is Ready", 120)
    field.whole()
    assert field.pods() == pods, "no pod is replaced"
