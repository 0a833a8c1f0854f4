"""A ConsumerGroup shows a real group and governs it: lag, first position, reset, a fence for active members."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from e2e.conftest import named
from e2e.install import BOOTSTRAP
from e2e.kube import Kube, KubectlError, Resource, is_ready, until
from e2e.workload import member_of, produce

GROUP_SECONDS_MAX = 150.0


def declare_group(kube: Kube, name: str, **spec: Any) -> None:
    declared = {"cluster": "demo", **spec}
    kube.apply(
        {"apiVersion": "odradek.io/v1", "kind": "ConsumerGroup", "metadata": {"name": name}, "spec": declared}
    )


def shown(kube: Kube, name: str, wanted: Callable[[Resource], bool], what: str) -> Resource:
    """The group's status once `wanted` holds for it."""
    found = until(
        lambda: kube.get("consumergroup", name),
        lambda one: wanted(one.get("status", {})),
        seconds_max=GROUP_SECONDS_MAX,
        what=what,
    )
    return dict(found["status"])


def behind(status: Resource) -> int:
    """Records that the group has not read; -1 while that is not known."""
    return int(status.get("lag", {}).get("messages", -1))


def reset_is(phase: str, name: str) -> Callable[[Resource], bool]:
    return lambda status: status.get("reset", {}).get("id") == name and status["reset"].get("phase") == phase


def test_lag_is_shown_as_it_grows_and_goes(kube: Kube, topic: str) -> None:
    values = [f"a{number}" for number in range(30)]
    produce(kube, BOOTSTRAP, topic, values)
    declare_group(kube, named("lagging"), topics=[topic])
    with member_of(kube, BOOTSTRAP, topic, named("lagging")) as member:
        assert sorted(member.read(30)) == sorted(values)
        status = shown(
            kube,
            named("lagging"),
            lambda one: one.get("state") == "Stable" and behind(one) == 0,
            "all is read",
        )
        assert len(status["members"]) == status["replicas"] == 1
        assert status["members"][0]["assigned"] == 3
    produce(kube, BOOTSTRAP, topic, [f"b{number}" for number in range(20)])
    status = shown(
        kube, named("lagging"), lambda one: behind(one) == 20, "twenty behind, and no member reads"
    )
    assert status["lag"]["seconds"] >= 0
    assert sum(one["messages"] for one in status["partitions"]) == 20


def test_a_reset_happens_once_for_each_id(kube: Kube, topic: str) -> None:
    values = [f"v{number}" for number in range(30)]
    produce(kube, BOOTSTRAP, topic, values)
    with member_of(kube, BOOTSTRAP, topic, named("again")) as member:
        member.read(30)
    declare_group(kube, named("again"), topics=[topic])
    shown(kube, named("again"), lambda one: behind(one) == 0, "all is read")
    kube.patch("consumergroup", named("again"), {"spec": {"reset": {"id": "one", "to": {"at": "Earliest"}}}})
    shown(
        kube, named("again"), lambda one: reset_is("Done", "one")(one) and behind(one) == 30, "all is unread"
    )
    with member_of(kube, BOOTSTRAP, topic, named("again")) as member:
        assert sorted(member.read(30)) == sorted(values)
    shown(kube, named("again"), lambda one: behind(one) == 0, "the same id resets nothing a second time")


def test_a_group_begins_at_its_initial_position(kube: Kube, topic: str) -> None:
    produce(kube, BOOTSTRAP, topic, [f"old{number}" for number in range(10)])
    declare_group(kube, named("beginning"), topics=[topic], initialPosition={"at": "Latest"})
    shown(kube, named("beginning"), lambda one: bool(one.get("startedFrom")), "its first position is set")
    produce(kube, BOOTSTRAP, topic, ["new"])
    with member_of(kube, BOOTSTRAP, topic, named("beginning")) as member:
        assert member.read(1) == ["new"], "its own auto.offset.reset says earliest: a commit was there"


def test_active_members_keep_a_reset_out_until_they_are_fenced(kube: Kube, topic: str) -> None:
    values = [f"v{number}" for number in range(10)]
    produce(kube, BOOTSTRAP, topic, values)
    declare_group(kube, named("active"), topics=[topic])
    with member_of(kube, BOOTSTRAP, topic, named("active")) as member:
        assert sorted(member.read(10)) == sorted(values)
        shown(kube, named("active"), lambda one: behind(one) == 0, "all is read")
        to = {"at": "Earliest"}
        kube.patch("consumergroup", named("active"), {"spec": {"reset": {"id": "refused", "to": to}}})
        status = shown(kube, named("active"), reset_is("Refused", "refused"), "the reset is refused")
        assert status["reset"]["message"]
        assert behind(status) == 0
        reset = {"id": "fenced", "to": to, "whenActive": "Fence"}
        kube.patch("consumergroup", named("active"), {"spec": {"reset": reset}})
        shown(kube, named("active"), reset_is("Done", "fenced"), "the member is put out, and the offsets set")
        lines = member.read(12)
        assert lines[0] == "lost"
        assert sorted(lines[2:]) == sorted(values), "it came back by itself, and reads all of it again"
    until(
        lambda: kube.get("consumergroup", named("active")),
        is_ready,
        seconds_max=GROUP_SECONDS_MAX,
        what="Ready again",
    )


def test_only_workloads_that_the_cluster_names_are_scaled(kube: Kube, topic: str) -> None:
    labels = {"app": named("scaled")}
    # No node takes its pods: how many it is set to is what counts.
    pod = {
        "nodeSelector": {"there-is": "none"},
        "containers": [{"name": "consumer", "image": "none"}],
        "securityContext": {"runAsNonRoot": True},
    }
    spec = {
        "replicas": 1,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod},
    }
    about = {"name": named("scaled")}
    kube.apply({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": about, "spec": spec})
    workload = {"kind": "Deployment", "name": named("scaled")}
    declare_group(kube, named("scaled"), topics=[topic], replicas=3, workload=workload)

    def members(status: Resource) -> Resource:
        found = status.get("conditions", [])
        return next((one for one in found if one["type"] == "MembersAsExpected"), {})

    status = shown(
        kube, named("scaled"), lambda one: members(one).get("reason") == "WorkloadNotAllowed", "refused"
    )
    assert "spec.scalableWorkloads" in members(status)["message"]
    assert (kube.get("deployment", named("scaled")) or {})["spec"]["replicas"] == 1
    kube.patch("cluster", "demo", {"spec": {"scalableWorkloads": [{"name": "scaled-*"}]}})
    until(
        lambda: kube.get("deployment", named("scaled")),
        lambda one: one["spec"]["replicas"] == 3,
        seconds_max=GROUP_SECONDS_MAX,
        what="scaled, once the Cluster names it",
    )
    kube.delete("deployment", named("scaled"))
    kube.delete("consumergroup", named("scaled"))


def test_a_declared_queue_has_its_rules_and_as_many_workers_as_it_needs(kube: Kube, topic: str) -> None:
    name, letters = named("queue"), f"dlq.{named('queue')}"
    labels = {"app": name}
    # No node takes its pods: how many it is set to is what counts.
    pod = {"nodeSelector": {"there-is": "none"}, "containers": [{"name": "worker", "image": "none"}]}
    template = {"metadata": {"labels": labels}, "spec": pod}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    kube.apply({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec})
    kube.patch("cluster", "demo", {"spec": {"scalableWorkloads": [{"name": "*"}]}})
    config = {"errors.deadletterqueue.group.enable": True}
    kube.apply(
        {
            "apiVersion": "odradek.io/v1",
            "kind": "Topic",
            "metadata": {"name": letters},
            "spec": {"cluster": "demo", "replicas": 3, "config": config},
        }
    )
    produce(kube, BOOTSTRAP, topic, [f"v{number}" for number in range(30)])
    declare_group(
        kube,
        name,
        type="Share",
        topics=[topic],
        config={"share.auto.offset.reset": "earliest", "share.delivery.count.limit": 2},
        deadLetters={"topic": letters},
        workload={"name": name},
        scaling={"messagesPerMember": 10, "min": 0, "max": 5, "scaleDownAfter": "1s"},
    )
    status = shown(
        kube, name, lambda one: behind(one) == 30 and bool(one.get("scaling")), "all is to be done"
    )
    assert status["scaling"]["wanted"] == 3
    until(
        lambda: kube.get("deployment", name),
        lambda one: one["spec"]["replicas"] == 3,
        seconds_max=GROUP_SECONDS_MAX,
        what="a worker for each ten records",
    )
    consume = ("odradek", "consume", topic, "--share-group", name, "-n", "30", "--bootstrap", BOOTSTRAP)
    assert len(kube.inside("demo-broker-0", *consume).split()) == 30
    status = shown(kube, name, lambda one: behind(one) == 0, "all is done")
    ready = next(one for one in status["conditions"] if one["type"] == "DeadLetterTopicReady")
    assert (ready["status"], ready["reason"]) == ("True", "Allowed")
    until(
        lambda: kube.get("deployment", name),
        lambda one: one["spec"]["replicas"] == 0,
        seconds_max=GROUP_SECONDS_MAX,
        what="no worker where nothing waits",
    )
    with pytest.raises(KubectlError, match="type cannot be changed"):
        kube.patch("consumergroup", name, {"spec": {"type": "Consumer", "deadLetters": None}})
    with pytest.raises(KubectlError, match="exclude each other"):
        kube.patch("consumergroup", name, {"spec": {"replicas": 2}})


REFUSING = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: e2e-one-replica}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
      - {apiGroups: [apps], apiVersions: [v1], operations: [UPDATE], resources: [deployments]}
    objectSelector: {matchLabels: {e2e: one-replica}}
  validations:
    - {expression: object.spec.replicas < 2, message: one replica is enough}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: e2e-one-replica}
spec: {policyName: e2e-one-replica, validationActions: [Deny]}
"""


def test_a_workload_that_kubernetes_refuses_to_scale_is_in_the_condition(kube: Kube, topic: str) -> None:
    """As a quota or a policy of the platform refuses it."""
    about = {"name": named("refused"), "labels": {"e2e": "one-replica"}}
    labels = {"app": named("refused")}
    pod = {"nodeSelector": {"there-is": "none"}, "containers": [{"name": "consumer", "image": "none"}]}
    template = {"metadata": {"labels": labels}, "spec": pod}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    try:
        kube.run("apply", "-f", "-", stdin=REFUSING)
        kube.apply({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": about, "spec": spec})
        until(lambda: is_refused(kube), bool, seconds_max=90, what="the policy is in force")
        kube.patch("cluster", "demo", {"spec": {"scalableWorkloads": [{"name": "*"}]}})
        workload = {"kind": "Deployment", "name": named("refused")}
        declare_group(kube, named("refused"), topics=[topic], replicas=3, workload=workload)

        def members(status: Resource) -> Resource:
            found = status.get("conditions", [])
            return next((one for one in found if one["type"] == "MembersAsExpected"), {})

        status = shown(
            kube,
            named("refused"),
            lambda one: "one replica is enough" in members(one).get("message", ""),
            "the group says what Kubernetes says",
        )
        assert members(status)["status"] == "False"
        assert status["state"], "it is shown like any other"
    finally:
        policies = "validatingadmissionpolicy,validatingadmissionpolicybinding"
        kube.run("delete", policies, "e2e-one-replica", "--ignore-not-found")
    until(
        lambda: kube.get("deployment", named("refused")),
        lambda one: one["spec"]["replicas"] == 3,
        seconds_max=120,
        what="it is scaled once nothing refuses it",
    )
    kube.delete("deployment", named("refused"))
    kube.delete("consumergroup", named("refused"))


def is_refused(kube: Kube) -> bool:
    """Whether the policy holds already; `kubectl scale` would not meet it."""
    patch = ("--type=merge", "--patch", '{"spec": {"replicas": 2}}', "--dry-run=server")
    try:
        kube.run("patch", "deployment", named("refused"), *patch)
    except KubectlError as refused:
        return "one replica is enough" in str(refused)
    return False
