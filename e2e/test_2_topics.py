"""Topics as YAML: made, grown, changed, refused, left and deleted."""

from __future__ import annotations

import pytest

from e2e.conftest import READY_SECONDS_MAX, declare_topic, named
from e2e.install import BOOTSTRAP
from e2e.kube import Kube, KubectlError, condition, is_ready, until
from e2e.workload import CLIENT_POD, everything, listed, listed_with, produce


def test_a_topic_is_made_and_reported(kube: Kube) -> None:
    made = declare_topic(
        kube, named("reported"), partitions=2, replicas=3, config={"retention.ms": 86_400_000}
    )
    listed_with(kube, BOOTSTRAP, named("reported"), 2)
    produce(kube, BOOTSTRAP, named("reported"), ["a", "b", "c"])
    assert made["status"]["topicName"] == named("reported")
    assert made["status"]["topicId"]


def test_a_topic_grows_and_never_shrinks(kube: Kube) -> None:
    declare_topic(kube, named("growing"), partitions=1, replicas=2)
    produce(kube, BOOTSTRAP, named("growing"), ["kept"])
    kube.patch("topic", named("growing"), {"spec": {"partitions": 4}})
    kube.ready("topic", named("growing"), READY_SECONDS_MAX)
    listed_with(kube, BOOTSTRAP, named("growing"), 4)
    with pytest.raises(KubectlError, match="partitions never shrink"):
        kube.patch("topic", named("growing"), {"spec": {"partitions": 2}})
    assert [value for _, _, _, value in everything(kube, BOOTSTRAP, named("growing"))] == ["kept"]


def test_the_replication_factor_changes_and_records_stay(kube: Kube) -> None:
    declare_topic(kube, named("more-replicas"), partitions=2, replicas=1)
    values = [f"v{number}" for number in range(200)]
    produce(kube, BOOTSTRAP, named("more-replicas"), values)
    kube.patch("topic", named("more-replicas"), {"spec": {"replicas": 3}})
    until(
        lambda: kube.get("topic", named("more-replicas")),
        lambda one: is_ready(one) and "replicasChange" not in one["status"],
        seconds_max=90,
        what="three replicas of each partition",
    )
    until(
        lambda: listed(kube, BOOTSTRAP, named("more-replicas")),
        lambda found: [(len(one["replicas"]), len(one["isrs"])) for one in found] == [(3, 3)] * 2,
        seconds_max=60,
        what="clients see three replicas of each partition, all in sync",
    )
    assert sorted(value or "" for *_, value in everything(kube, BOOTSTRAP, named("more-replicas"))) == sorted(
        values
    )


def test_bad_topics_are_refused_at_once_with_a_reason(kube: Kube) -> None:
    with pytest.raises(KubectlError, match=r"min\.insync\.replicas must not be more than replicas"):
        declare_topic(kube, "bad", partitions=1, replicas=1, config={"min.insync.replicas": 2})
    with pytest.raises(KubectlError, match=r"retention\.sm"):
        declare_topic(kube, "bad", partitions=1, config={"retention.sm": 1})
    too_many = {"cluster": "demo", "partitions": 1, "replicas": 9}
    kube.apply(
        {"apiVersion": "odradek.io/v1", "kind": "Topic", "metadata": {"name": "bad"}, "spec": too_many}
    )
    reported = until(
        lambda: kube.get("topic", "bad"),
        lambda one: condition(one, "Ready").get("status") == "False",
        seconds_max=90,
        what="a Topic that cannot be says so",
    )
    assert "9" in condition(reported, "Ready")["message"]
    kube.delete("topic", "bad")


def test_the_policy_says_what_becomes_of_a_topic(kube: Kube) -> None:
    declare_topic(kube, named("retained"), partitions=1, replicas=3)
    declare_topic(kube, named("removed"), partitions=1, replicas=1, deletionPolicy="Delete")
    produce(kube, BOOTSTRAP, named("retained"), ["still here"])
    kube.delete("topic", named("retained"), named("removed"))
    until(
        lambda: listed(kube, BOOTSTRAP, named("removed")),
        lambda seen: not seen,
        seconds_max=90,
        what="the topic is deleted",
    )
    assert [value for *_, value in everything(kube, BOOTSTRAP, named("retained"))] == ["still here"]
    adopted = declare_topic(kube, named("retained"), partitions=1, replicas=3)
    assert adopted["status"]["topicId"]


def test_clients_make_no_topic_and_one_that_grows_is_led_by_all_brokers(kube: Kube) -> None:
    # Clients ask again for a topic that may be on its way, for 30 s by default.
    kcat = (
        "kcat",
        "-P",
        "-b",
        BOOTSTRAP,
        "-t",
        named("misspelt"),
        "-X",
        "topic.metadata.propagation.max.ms=500",
    )
    with pytest.raises(KubectlError, match=r"[Uu]nknown topic"):
        kube.inside(CLIENT_POD, *kcat, stdin="lost\n")
    assert listed(kube, BOOTSTRAP, named("misspelt")) == []
    # As a client would have made it where brokers.config lets clients.
    arguments = ("--partitions", "1", "--replication-factor", "3", "--bootstrap", BOOTSTRAP)
    kube.inside("demo-broker-0", "odradek", "topics", "create", named("quicker"), *arguments)
    declare_topic(kube, named("quicker"), partitions=6, replicas=3)
    leaders = [one["leader"] for one in listed_with(kube, BOOTSTRAP, named("quicker"), 6)]
    assert sorted(leaders) == [0, 0, 1, 1, 2, 2]
