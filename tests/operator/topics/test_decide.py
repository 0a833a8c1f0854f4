"""What is decided about one Topic, case by case: values in, steps and status out."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any

from odradek_operator.gateways.topic_values import (
    ActualPartition,
    ActualTopic,
    AlterConfig,
    CreateTopic,
    Grow,
    Measures,
    Reassign,
)
from odradek_operator.reconcilers.broker_failures import Failure
from odradek_operator.reconcilers.decisions import Reachability, RemoveFinalizer
from odradek_operator.reconcilers.topic.decide import decide
from odradek_operator.reconcilers.topic.facts import (
    ActualTopicState,
    DesiredTopic,
    NoteCreating,
    TopicDecision,
)
from odradek_operator.resources.conditions import condition
from odradek_operator.resources.structure import parse, render
from odradek_operator.resources.topic import TopicResourceSpec, TopicStatus

ID = uuid.UUID(int=7)
OTHER_ID = uuid.UUID(int=8)
BROKERS = {0: None, 1: None, 2: None}


def wanted(status: TopicStatus | None = None, **spec: Any) -> DesiredTopic:
    meta = {
        key: spec.pop(key)
        for key in ("generation", "is_paused", "is_deleted", "has_finalizer")
        if key in spec
    }
    return DesiredTopic(
        name="orders",
        uid="me",
        spec=parse(TopicResourceSpec, {"cluster": "main", "partitions": 2, **spec}),
        status=status or TopicStatus(),
        **{"generation": 1, **meta},
    )


def topic(
    *, partitions: int = 2, replicas: tuple[int, ...] = (0,), id: uuid.UUID = ID, **config: str
) -> ActualTopic:
    return ActualTopic(
        name="orders",
        id=id,
        partitions=tuple(
            ActualPartition(number=number, leader=replicas[0], replicas=replicas, in_sync=replicas)
            for number in range(partitions)
        ),
        config={key.replace("_", "."): value for key, value in config.items()},
    )


def there(found: ActualTopic | None, **more: Any) -> ActualTopicState:
    return ActualTopicState(topic=found, brokers=BROKERS, **more)


OWN = TopicStatus(owner_uid="me", topic_id=str(ID), applied_generation=1)


def reason(decision: TopicDecision) -> tuple[str, str]:
    (ready,) = [one for one in decision.conditions if one.type == "Ready"]
    return str(ready.status), ready.reason


def event_reasons(decision: TopicDecision) -> list[str]:
    return [one.reason for one in decision.events]


# --- making --------------------------------------------------------------------------------------------------------


def test_a_topic_that_is_not_there_is_made_as_wanted() -> None:
    decision = decide(wanted(replicas=3, config={"retention.ms": 5}), there(None))
    assert decision.actions == (CreateTopic("orders", 2, 3, {"retention.ms": "5"}),)
    assert decide(wanted(name="Other_1"), there(None)).actions == (CreateTopic("Other_1", 2, -1, {}),)


def test_what_was_made_now_is_owned_and_ready() -> None:
    decision = decide(
        wanted(), there(topic(), made_now=True, measures={0: Measures(1, 5, 70), 1: Measures(0, 2, 30)})
    )
    assert decision.actions == ()
    assert reason(decision) == ("True", "AsWanted")
    status = decision.status
    assert status is not None
    assert (status.topic_id, status.owner_uid, status.applied_generation) == (str(ID), "me", 1)
    assert (status.partitions, status.replicas, status.records, status.size_bytes) == (2, 1, 6, 100)
    assert (status.well_partitions, status.partition_states) == ("0-1", ())
    assert parse(TopicStatus, render(status)) == status


def test_a_noted_creation_is_recognized_after_an_interruption() -> None:
    careful = wanted(adoptionPolicy="Fail")
    assert decide(careful, there(None)).actions == (NoteCreating(), CreateTopic("orders", 2, -1, {}))
    noted = replace(careful, status=TopicStatus(creating="me"))
    assert decide(noted, there(None)).actions == (CreateTopic("orders", 2, -1, {}),)
    decision = decide(noted, there(topic()))
    assert reason(decision) == ("True", "AsWanted")
    assert decision.status is not None
    assert decision.status.creating is None


def test_a_topic_that_another_client_made_first_is_foreign() -> None:
    noted = wanted(TopicStatus(creating="me"), adoptionPolicy="Fail")
    quicker = Failure("TopicAlreadyExists", "it is there", False)
    decision = decide(noted, there(None, failure=quicker, noted_now=True))
    assert decision.status is not None
    assert decision.status.creating is None
    assert (event_reasons(decision), decision.again_seconds) == ([], 1)
    assert reason(decide(replace(noted, status=decision.status), there(topic()))) == ("False", "TopicExists")


def test_a_topic_of_an_interrupted_run_is_recognized_when_it_shows_late() -> None:
    noted = wanted(TopicStatus(creating="me"), adoptionPolicy="Fail")
    decision = decide(noted, there(None, failure=Failure("TopicAlreadyExists", "it is there", False)))
    assert decision.status is not None
    assert decision.status.creating == "me"
    assert reason(decide(replace(noted, status=decision.status), there(topic()))) == ("True", "AsWanted")


def test_one_that_was_made_and_does_not_show_yet_is_not_made_again() -> None:
    decision = decide(wanted(), there(None, made_now=True))
    assert (decision.actions, reason(decision), decision.again_seconds) == ((), ("False", "Creating"), 1)


def test_a_refusal_is_shown_and_reported_once() -> None:
    actual = there(None, failure=Failure("InvalidConfig", "no", True))
    decision = decide(wanted(), actual)
    assert (reason(decision), event_reasons(decision)) == (("False", "InvalidConfig"), ["InvalidConfig"])
    again = wanted(TopicStatus(conditions=decision.conditions))
    assert event_reasons(decide(again, actual)) == []
    assert decision.again_seconds == 60


# --- adopting ------------------------------------------------------------------------------------------------------


def test_a_topic_that_was_there_is_adopted_and_changed() -> None:
    actual = there(topic(partitions=1, segment_bytes="5"))
    decision = decide(wanted(config={"retention.ms": 5}), actual)
    assert decision.actions == (
        AlterConfig("orders", {"retention.ms": "5", "segment.bytes": None}),
        Grow("orders", 2),
    )
    assert event_reasons(decision) == [], "adopting is no drift"


def test_adopted_only_if_equal() -> None:
    spec: dict[str, Any] = {"adoptionPolicy": "AdoptIfEqual", "config": {"retention.ms": 5}}
    decision = decide(wanted(**spec), there(topic(retention_ms="6")))
    assert decision.actions == ()
    assert reason(decision) == ("False", "TopicDiffers")
    assert "retention.ms is 6, not 5" in decision.conditions[0].message
    assert decision.status == TopicStatus(), "it is not owned"
    taken = decide(wanted(**spec), there(topic(retention_ms="5")))
    assert reason(taken) == ("True", "AsWanted")


def test_a_topic_with_more_partitions_cannot_be_as_wanted() -> None:
    decision = decide(wanted(), there(topic(partitions=3)))
    assert decision.actions == ()
    assert reason(decision) == ("False", "MorePartitions")
    assert "set partitions to 3" in decision.conditions[0].message


def test_the_younger_of_two_resources_gets_a_condition_and_holds_nothing() -> None:
    decision = decide(wanted(deletionPolicy="Delete", has_finalizer=True), there(topic(), older="first"))
    assert reason(decision) == ("False", "TopicTaken")
    assert decision.actions == (RemoveFinalizer(),)
    assert "first" in decision.conditions[0].message


def test_the_brokers_own_topics_are_left_alone() -> None:
    decision = decide(wanted(name="__consumer_offsets"), there(topic()))
    assert (decision.actions, reason(decision)) == ((), ("False", "InternalTopic"))


# --- changing ------------------------------------------------------------------------------------------------------


def test_a_new_spec_is_put_in_force_in_every_drift_mode() -> None:
    for drift in ("Enforce", "Warn", "Off"):
        desired = wanted(OWN, generation=2, drift=drift, config={"retention.ms": 5}, partitions=4)
        decision = decide(desired, there(topic()))
        assert decision.actions == (AlterConfig("orders", {"retention.ms": "5"}), Grow("orders", 4)), drift
        assert event_reasons(decision) == []


def test_a_topic_whose_replicas_are_moved_to_other_brokers_stays_ready() -> None:
    """As when its Cluster grows; a change of how many there are is what the topic waits for."""
    found = topic(replicas=(0, 1))
    moved = replace(found.partitions[0], replicas=(2, 0, 1), adding=(2,), removing=(0,))
    decision = decide(wanted(OWN, replicas=2), there(replace(found, partitions=(moved, found.partitions[1]))))
    assert reason(decision) == ("True", "ReplicasMoving")
    assert decision.status is not None and decision.status.replicas_change is not None
    fewer = replace(found.partitions[0], removing=(1,))
    decision = decide(
        wanted(OWN, replicas=1), there(replace(topic(), partitions=(fewer, topic().partitions[1])))
    )
    assert reason(decision) == ("False", "ReplicasMoving")


def test_more_replicas_are_moved_with_progress() -> None:
    desired = wanted(OWN, generation=2, replicas=2)
    decision = decide(desired, there(topic()))
    (step,) = decision.actions
    assert isinstance(step, Reassign)
    assert {number: (len(brokers), brokers[0]) for number, brokers in step.replicas.items()} == {
        0: (2, 0),
        1: (2, 0),
    }
    moving = topic()
    one = replace(moving.partitions[0], replicas=(0, 1), adding=(1,))
    done = replace(moving.partitions[1], replicas=(0, 2), in_sync=(0, 2))
    under_way = decide(desired, there(replace(moving, partitions=(one, done))))
    assert reason(under_way) == ("False", "ReplicasMoving")
    assert under_way.again_seconds == 3
    assert under_way.status is not None
    change = under_way.status.replicas_change
    assert change is not None
    assert (change.wanted, change.partitions_done, change.partitions_moving) == (2, 1, 1)


def test_more_replicas_than_brokers_are_not_to_be_had() -> None:
    decision = decide(wanted(replicas=4), there(topic()))
    assert reason(decision) == ("False", "TooFewBrokers")
    assert "4 replicas need 4 brokers, and the cluster has 3" in decision.conditions[0].message


def test_replicas_that_are_not_named_are_left_as_they_are() -> None:
    assert decide(wanted(OWN), there(topic(replicas=(0, 1, 2)))).actions == ()


def test_throttles_of_moving_replicas_are_no_drift() -> None:
    actual = there(topic(leader_replication_throttled_replicas="*"))
    assert decide(wanted(OWN), actual).actions == ()


# --- drift ---------------------------------------------------------------------------------------------------------


def test_drift_is_corrected_and_reported() -> None:
    decision = decide(wanted(OWN), there(topic(retention_ms="6")))
    assert decision.actions == (AlterConfig("orders", {"retention.ms": None}),)
    assert event_reasons(decision) == ["DriftCorrected"]


def test_drift_is_only_reported_once() -> None:
    desired = wanted(OWN, drift="Warn")
    decision = decide(desired, there(topic(retention_ms="6")))
    assert decision.actions == ()
    assert [(one.type, str(one.status)) for one in decision.conditions] == [
        ("Ready", "True"),
        ("Drifted", "True"),
    ]
    assert event_reasons(decision) == ["Drifted"]
    again = replace(OWN, conditions=decision.conditions)
    assert event_reasons(decide(replace(desired, status=again), there(topic(retention_ms="6")))) == []


def test_drift_may_be_ignored() -> None:
    decision = decide(wanted(OWN, drift="Off"), there(topic(retention_ms="6", partitions=5)))
    assert decision.actions == ()
    assert [one.type for one in decision.conditions] == ["Ready"]


def test_a_topic_deleted_by_hand_is_made_again_only_with_drift_enforced() -> None:
    decision = decide(wanted(OWN), there(None))
    assert isinstance(decision.actions[0], CreateTopic)
    assert event_reasons(decision) == ["TopicMadeAnew"]
    for drift in ("Warn", "Off"):
        left = decide(wanted(OWN, drift=drift), there(None))
        assert left.actions == ()
        assert reason(left) == ("False", "TopicMissing")


def test_a_topic_that_was_replaced_is_adopted_by_the_policy() -> None:
    decision = decide(wanted(OWN), there(topic(id=OTHER_ID)))
    assert event_reasons(decision) == ["TopicReplaced"]
    assert decision.status is not None
    assert decision.status.topic_id == str(OTHER_ID)
    assert reason(decide(wanted(OWN, adoptionPolicy="Fail"), there(topic(id=OTHER_ID)))) == (
        "False",
        "TopicExists",
    )


# --- deleting ------------------------------------------------------------------------------------------------------


def test_nothing_is_held_and_an_earlier_finalizer_is_taken_off() -> None:
    held = {"has_finalizer": True, "deletionPolicy": "Delete"}
    assert decide(wanted(OWN, **held), there(topic())).actions == (RemoveFinalizer(),)
    for reachability in Reachability:
        actual = ActualTopicState(reachability=reachability, problem="why")
        assert decide(wanted(OWN, is_deleted=True, **held), actual).actions == (RemoveFinalizer(),)
    assert decide(wanted(OWN, is_deleted=True), there(topic())) == TopicDecision()


# --- without a cluster, paused -------------------------------------------------------------------------------------


def test_without_its_cluster_a_topic_says_so_and_keeps_what_it_knows() -> None:
    for reach, expected in (
        (Reachability.GONE, ("False", "ClusterNotFound")),
        (Reachability.UNREACHABLE, ("Unknown", "ClusterUnreachable")),
    ):
        decision = decide(wanted(OWN), ActualTopicState(reachability=reach, problem="why"))
        assert reason(decision) == expected
        assert decision.status == OWN
        assert decision.again_seconds is not None


def test_a_paused_topic_is_looked_at_and_left_alone() -> None:
    assert decide(wanted(is_paused=True, deletionPolicy="Delete"), there(None)).actions == ()
    decision = decide(wanted(OWN, is_paused=True), there(topic(partitions=5)))
    assert (decision.actions, reason(decision)) == ((), ("Unknown", "Paused"))
    assert decision.status is not None
    assert decision.status.partitions == 5
    assert decide(wanted(is_paused=True), there(topic())).status == TopicStatus(), "it takes nothing over"


# --- what is shown -------------------------------------------------------------------------------------------------


def test_partitions_that_lack_leaders_or_replicas_are_counted() -> None:
    made = topic(replicas=(0, 1))
    behind = replace(made.partitions[0], in_sync=(0,))
    dead = replace(made.partitions[1], leader=-1, in_sync=(1,))
    decision = decide(wanted(OWN), there(replace(made, partitions=(behind, dead))))
    assert reason(decision) == ("False", "PartitionsOffline")
    assert decision.status is not None
    assert (decision.status.offline, decision.status.under_replicated) == (1, 2)
    late = decide(wanted(OWN), there(replace(made, partitions=(behind, made.partitions[1]))))
    assert reason(late) == ("True", "UnderReplicated")
    # No event follows when a broker is back: it is looked for, and sooner the worse it is.
    whole = decide(wanted(OWN), there(topic()))
    assert decision.again_seconds is not None and late.again_seconds is not None
    assert decision.again_seconds < late.again_seconds and whole.again_seconds is None


def test_a_status_that_is_not_measured_again_stays_the_same() -> None:
    first = decide(
        wanted(OWN), there(topic(), measures={0: Measures(0, 5, 70), 1: Measures(0, 2, 30)})
    ).status
    assert first is not None
    assert decide(wanted(first), there(topic())).status == first


def test_a_wide_topic_shows_its_first_partitions() -> None:
    wide = topic(partitions=500)
    without_leader = tuple(replace(one, leader=-1) for one in wide.partitions)
    decision = decide(wanted(OWN, partitions=500), there(replace(wide, partitions=without_leader)))
    assert decision.status is not None
    assert (decision.status.partitions, len(decision.status.partition_states)) == (500, 64)
    assert decision.status.well_partitions is None


def test_partitions_that_are_well_are_one_line_and_the_others_are_shown() -> None:
    """So `kubectl describe` stays short: a topic of 500 partitions has two lines more than one of a single one."""
    wide = topic(partitions=500, replicas=(0, 1))
    lagging = tuple(replace(one, in_sync=(0,)) if one.number in (7, 400) else one for one in wide.partitions)
    measures = {number: Measures(0, number, 10) for number in range(500)}
    found = there(replace(wide, partitions=lagging), measures=measures)
    status = decide(wanted(OWN, partitions=500), found).status
    assert status is not None
    assert status.well_partitions == "0-6,8-399,401-499"
    assert [(row.partition, row.in_sync, row.end_offset) for row in status.partition_states] == [
        (7, (0,), 7),
        (400, (0,), 400),
    ]
    scattered = tuple(replace(one, leader=-1 if one.number % 2 else 0) for one in wide.partitions)
    status = decide(wanted(OWN, partitions=500), there(replace(wide, partitions=scattered))).status
    assert status is not None and status.well_partitions is not None
    assert status.well_partitions.endswith(",…") and parse(TopicStatus, render(status)) == status


def test_the_condition_of_drift_is_false_when_all_is_well() -> None:
    decision = decide(wanted(OWN), there(topic()))
    assert condition("Drifted", False, "AsWanted") in decision.conditions


def test_a_number_given_as_a_text_is_the_number() -> None:
    """Brokers answer with settings as texts, so there is nothing to change."""
    desired = wanted(OWN, config={"retention.ms": "604800000"})
    decision = decide(desired, there(topic(retention_ms="604800000")))
    assert (decision.actions, reason(decision)) == ((), ("True", "AsWanted"))
