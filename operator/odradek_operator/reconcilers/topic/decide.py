"""The decision about one Topic: a pure function of the wanted state and the actual state.

A run may be interrupted anywhere, so a decision depends only on what there is. Three fields of the status note what
cannot be observed. `ownerUid` with `topicId`: the topic belongs to this resource, and is deleted with it. `creating`: a
topic that appears was made by this resource. `appliedGeneration`: a difference is drift, not a change of the spec.
"""

from __future__ import annotations

from dataclasses import replace

from odradek.foundation.words import count
from odradek_operator.gateways.topic_values import (
    ActualTopic,
    AlterConfig,
    CreateTopic,
    Grow,
    Reassign,
)
from odradek_operator.reconcilers.decisions import (
    REFUSED_AGAIN_SECONDS,
    UNREACHABLE_AGAIN_SECONDS,
    Event,
)
from odradek_operator.reconcilers.topic.facts import (
    Action,
    ActualTopicState,
    DesiredTopic,
    NoteCreating,
    TopicDecision,
    topic_status,
)
from odradek_operator.reconcilers.topic.replicas import with_replicas
from odradek_operator.resources.conditions import Condition, condition, ready_condition
from odradek_operator.resources.topic import AdoptionPolicy, DriftMode, TopicStatus

MOVING_AGAIN_SECONDS = 3.0
SOON_AGAIN_SECONDS = 1.0
# Brokers that come back repair this, and no event follows.
OFFLINE_AGAIN_SECONDS = 10.0
UNDER_REPLICATED_AGAIN_SECONDS = 60.0
DRIFTED = "Drifted"
INTERNAL_PREFIX = "__"
ALREADY_EXISTS = "TopicAlreadyExists"


def decide(desired: DesiredTopic, actual: ActualTopicState) -> TopicDecision:
    """The next steps, or the status to write where there are none."""
    if desired.is_deleted:
        # The record of what goes with its resource has it, and the topic goes when the resource has gone.
        return TopicDecision(actions=desired.release_steps())
    if actual.older is not None:
        return TopicDecision.with_condition(
            desired,
            ready_condition(
                False,
                "TopicTaken",
                f"the topic {desired.topic} belongs to the Topic {actual.older}; delete one of the two",
            ),
            *desired.release_steps(),
        )
    if desired.topic.startswith(INTERNAL_PREFIX):
        message = (
            f"{desired.topic} is one of the brokers' own topics, which they look after; name another one"
        )
        return TopicDecision.with_condition(
            desired, ready_condition(False, "InternalTopic", message), *desired.release_steps()
        )
    absence = TopicDecision.without_cluster(desired, actual.reachability, actual.problem)
    if absence is not None:
        return absence
    if desired.is_paused:
        return _decide_paused(desired, actual)
    if released := desired.release_steps():
        return TopicDecision(actions=released)
    if actual.failure is not None:
        return _decide_refused(desired, actual)
    if actual.topic is None:
        return _decide_missing(desired, actual)
    return _decide_existing(desired, actual, actual.topic)


# --- a topic that is not there -------------------------------------------------------------------------------------


def _decide_missing(desired: DesiredTopic, actual: ActualTopicState) -> TopicDecision:
    spec = desired.spec
    if actual.made_now:
        # Brokers learn of a new topic one after another.
        waits = ready_condition(False, "Creating", "the topic was made and does not show on every broker yet")
        return TopicDecision(status=desired.status, conditions=(waits,), again_seconds=SOON_AGAIN_SECONDS)
    is_lost = desired.status.owner_uid == desired.uid and desired.status.topic_id is not None
    is_drift = is_lost and desired.status.applied_generation == desired.generation
    if is_drift and spec.drift is not DriftMode.ENFORCE:
        message = (
            f"the topic {desired.topic} was deleted by other means; change the spec or set drift to Enforce to have "
            "it made again, empty"
        )
        return TopicDecision.with_condition(
            desired,
            ready_condition(False, "TopicMissing", message),
            condition(DRIFTED, True, "TopicMissing", message),
        )
    steps: list[Action] = []
    if spec.adoption_policy is not AdoptionPolicy.ADOPT and desired.status.creating != desired.uid:
        steps.append(NoteCreating())
    steps.append(CreateTopic(desired.topic, spec.partitions, spec.replicas or -1, dict(spec.config or {})))
    events: tuple[Event, ...] = ()
    if is_lost:
        lost = f"the topic {desired.topic} had been deleted by other means and is made again, empty"
        events = (Event("TopicMadeAnew", lost, is_warning=True),)
    return TopicDecision(actions=tuple(steps), events=events)


def _decide_refused(desired: DesiredTopic, actual: ActualTopicState) -> TopicDecision:
    assert actual.failure is not None
    failure = actual.failure
    if failure.reason == ALREADY_EXISTS:
        return _decide_made_by_another(desired, actual)
    events: tuple[Event, ...] = ()
    if _ready_reason(desired) != failure.reason:
        events = (Event(failure.reason, failure.message, is_warning=True),)
    status = desired.status
    if actual.topic is not None and (status.owner_uid == desired.uid or actual.made_now):
        status = topic_status(desired, actual)
    return TopicDecision(
        status=status,
        conditions=(ready_condition(False, failure.reason, failure.message),),
        events=events,
        again_seconds=REFUSED_AGAIN_SECONDS if failure.is_lasting else UNREACHABLE_AGAIN_SECONDS,
    )


def _decide_made_by_another(desired: DesiredTopic, actual: ActualTopicState) -> TopicDecision:
    """The topic was made between the read and this run's Create.

    Either another client made it, or an earlier run of this operator that was interrupted after NoteCreating.
    """
    status = replace(desired.status, creating=None) if actual.noted_now else desired.status
    waits = ready_condition(
        False, "Creating", "the topic was made by another client at this moment; it is looked at again"
    )
    return TopicDecision(status=status, conditions=(waits,), again_seconds=SOON_AGAIN_SECONDS)


# --- a topic that is there -----------------------------------------------------------------------------------------


def _decide_existing(desired: DesiredTopic, actual: ActualTopicState, topic: ActualTopic) -> TopicDecision:
    is_own = desired.status.owner_uid == desired.uid and desired.status.topic_id == str(topic.id)
    is_own = is_own or actual.made_now or desired.status.creating == desired.uid
    differences = _list_differences(desired, topic)
    events: list[Event] = []
    if not is_own:
        refusal = _refuse_adoption(desired, topic, differences)
        if refusal is not None:
            return refusal
        if desired.status.topic_id is not None:
            events.append(
                Event(
                    "TopicReplaced",
                    f"the topic {desired.topic} is another one than before: {topic.id}",
                    is_warning=True,
                )
            )
        desired = replace(desired, status=replace(desired.status, applied_generation=None))
    is_drift = desired.status.applied_generation == desired.generation
    if not differences:
        return _decide_settled(desired, actual, events)
    if is_drift and desired.spec.drift is DriftMode.OFF:
        return _decide_settled(desired, actual, events)
    if is_drift and desired.spec.drift is DriftMode.WARN:
        return _decide_drifted(desired, actual, differences)
    if len(topic.partitions) > desired.spec.partitions:
        return _decide_too_many_partitions(desired, actual, topic)
    try:
        actions = _plan_steps(desired, actual, topic)
    except ValueError as problem:
        message = f"{problem}; add brokers to the Cluster or set replicas to fewer"
        return TopicDecision(
            status=topic_status(desired, actual),
            conditions=(ready_condition(False, "TooFewBrokers", message),),
            again_seconds=REFUSED_AGAIN_SECONDS,
        )
    if not actions:
        return _decide_moving(desired, actual, events)
    if is_drift:
        changes = "; ".join(differences)
        message = f"the topic {desired.topic} was changed by other means and is changed back: {changes}"
        events.append(Event("DriftCorrected", message, is_warning=True))
    return TopicDecision(actions=actions, events=tuple(events))


def _list_differences(desired: DesiredTopic, topic: ActualTopic) -> list[str]:
    """Return the differences of the topic from the wanted state, in words."""
    spec = desired.spec
    found = []
    if len(topic.partitions) != spec.partitions:
        found.append(f"partitions are {len(topic.partitions)}, not {spec.partitions}")
    if spec.replicas is not None:
        counts = sorted({len(partition.lasting) for partition in topic.partitions} - {spec.replicas})
        if counts:
            found.append(f"replicas are {', '.join(map(str, counts))}, not {spec.replicas}")
    for key, value in sorted(_config_changes(desired, topic).items()):
        is_now = topic.config.get(key, "the brokers' value")
        found.append(
            f"{key} is {is_now}, not {'the brokers' + chr(39) + ' value' if value is None else value}"
        )
    return found


def _config_changes(desired: DesiredTopic, topic: ActualTopic) -> dict[str, str | None]:
    wanted = desired.spec.config or {}
    changes: dict[str, str | None] = {
        key: text for key, text in wanted.items() if topic.config.get(key) != text
    }
    changes |= {key: None for key in topic.config if key not in wanted and key not in _NOT_OURS}
    return changes


# Tools that move replicas set these and remove them.
_NOT_OURS = frozenset({"leader.replication.throttled.replicas", "follower.replication.throttled.replicas"})


def _refuse_adoption(
    desired: DesiredTopic, topic: ActualTopic, differences: list[str]
) -> TopicDecision | None:
    """Why the topic is left alone, or None when it may be taken."""
    policy = desired.spec.adoption_policy
    if policy is AdoptionPolicy.ADOPT:
        return None
    if policy is AdoptionPolicy.ADOPT_IF_EQUAL:
        if not differences:
            return None
        reason = "TopicDiffers"
        message = (
            f"the topic {desired.topic} was there before and is not as this resource has it: {'; '.join(differences)}. "
            "Make the two equal, or set adoptionPolicy to Adopt to have the topic changed"
        )
    else:
        reason = "TopicExists"
        message = (
            f"the topic {desired.topic} was there before, and adoptionPolicy is Fail; set it to Adopt or "
            "AdoptIfEqual to take the topic over, or name another one"
        )
    return TopicDecision.with_condition(
        desired, ready_condition(False, reason, message), again_seconds=REFUSED_AGAIN_SECONDS
    )


def _plan_steps(desired: DesiredTopic, actual: ActualTopicState, topic: ActualTopic) -> tuple[Action, ...]:
    """Raises ValueError when there are too few brokers."""
    steps: list[Action] = []
    changes = _config_changes(desired, topic)
    if changes:
        steps.append(AlterConfig(desired.topic, changes))
    if len(topic.partitions) < desired.spec.partitions:
        steps.append(Grow(desired.topic, desired.spec.partitions))
        return tuple(steps)  # the new partitions are looked at before replicas are moved
    if desired.spec.replicas is not None:
        moves = with_replicas(
            topic.partitions, desired.spec.replicas, brokers=actual.brokers, machines=actual.machines
        )
        if moves:
            steps.append(Reassign(desired.topic, moves))
    return tuple(steps)


# --- the status ---------------------------------------------------------------------------------------------------


def _decide_settled(desired: DesiredTopic, actual: ActualTopicState, events: list[Event]) -> TopicDecision:
    """All is as wanted, or left as it is."""
    status = replace(topic_status(desired, actual), applied_generation=desired.generation)
    if status.replicas_change is not None:
        return _decide_moving(desired, actual, events)
    return TopicDecision(
        status=status,
        conditions=(_ready_condition(status), *_drift_condition(desired)),
        events=tuple(events),
        again_seconds=_healing_seconds(status),
    )


def _healing_seconds(status: TopicStatus) -> float | None:
    if status.offline:
        return OFFLINE_AGAIN_SECONDS
    return UNDER_REPLICATED_AGAIN_SECONDS if status.under_replicated else None


def _ready_condition(status: TopicStatus) -> Condition:
    if status.offline:
        return ready_condition(
            False,
            "PartitionsOffline",
            f"{status.offline} of {status.partitions} partitions have no leader; bring back the brokers that keep them",
        )
    if status.under_replicated:
        return ready_condition(
            True,
            "UnderReplicated",
            f"{status.under_replicated} of {status.partitions} partitions have a replica that is not in sync; look at "
            "the Cluster's brokers if it does not pass",
        )
    return ready_condition(True, "AsWanted")


def _drift_condition(desired: DesiredTopic) -> tuple[Condition, ...]:
    return () if desired.spec.drift is DriftMode.OFF else (condition(DRIFTED, False, "AsWanted"),)


def _decide_drifted(desired: DesiredTopic, actual: ActualTopicState, differences: list[str]) -> TopicDecision:
    message = (
        f"{'; '.join(differences)}; change the topic back, change this resource, or set drift to Enforce"
    )
    status = topic_status(desired, actual)
    is_known = any(known.type == DRIFTED and known.status == "True" for known in desired.status.conditions)
    return TopicDecision(
        status=status,
        conditions=(_ready_condition(status), condition(DRIFTED, True, "ChangedElsewhere", message)),
        events=() if is_known else (Event("Drifted", message, is_warning=True),),
        again_seconds=_healing_seconds(status),
    )


def _decide_moving(desired: DesiredTopic, actual: ActualTopicState, events: list[Event]) -> TopicDecision:
    assert actual.topic is not None
    status = topic_status(desired, actual)
    change = status.replicas_change
    is_whole = False
    message = "replicas are being moved"
    if change is not None:
        message = (
            f"{change.partitions_done} of {status.partitions} partitions have {change.wanted} replicas, "
            f"{change.partitions_moving} are being copied"
        )
        # A Cluster that grows or shrinks moves them: all are there all the while, and nothing is wanted of the topic.
        moving = [partition for partition in actual.topic.partitions if partition.is_moving]
        is_whole = all(len(partition.copied) == change.wanted for partition in moving) and not status.offline
    return TopicDecision(
        status=status,
        conditions=(ready_condition(is_whole, "ReplicasMoving", message), *_drift_condition(desired)),
        events=tuple(events),
        again_seconds=MOVING_AGAIN_SECONDS,
    )


def _decide_too_many_partitions(
    desired: DesiredTopic, actual: ActualTopicState, topic: ActualTopic
) -> TopicDecision:
    message = (
        f"the topic has {count(len(topic.partitions), 'partition')}, more than the {desired.spec.partitions} that are "
        f"wanted, and partitions never shrink; set partitions to {len(topic.partitions)}"
    )
    return TopicDecision(
        status=topic_status(desired, actual),
        conditions=(ready_condition(False, "MorePartitions", message),),
        again_seconds=REFUSED_AGAIN_SECONDS,
    )


def _decide_paused(desired: DesiredTopic, actual: ActualTopicState) -> TopicDecision:
    status = desired.status
    if actual.topic is not None and status.owner_uid == desired.uid:
        status = topic_status(desired, actual)
    return TopicDecision(
        status=status,
        conditions=(ready_condition(None, "Paused", "nothing is changed while this is paused"),),
    )


def _ready_reason(desired: DesiredTopic) -> str | None:
    return next((known.reason for known in desired.status.conditions if known.type == "Ready"), None)
