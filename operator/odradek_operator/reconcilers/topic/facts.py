"""What a decision about a Topic rests on, and what it comes to: plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from odradek_operator.gateways.topic_values import ActualTopic, Measures, OnBrokers
from odradek_operator.reconcilers.broker_failures import Failure
from odradek_operator.reconcilers.decisions import (
    AddFinalizer,
    DecisionOf,
    DesiredOf,
    Reachability,
    RemoveFinalizer,
)
from odradek_operator.resources.topic import TopicSpec, TopicStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Desired(DesiredOf[TopicSpec, TopicStatus]):
    """A Topic resource as it was read."""

    @property
    def topic(self) -> str:
        """The topic's name."""
        return self.spec.name or self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Actual:
    """What there is. `older` is the resource that has the topic and why, where this one came later; `failure` the last
    refusal of what was tried in this run; `measures` are absent when they were not asked for; `made_now` says that this
    run has made the topic, `noted_now` that it has noted that it would.
    """

    reachability: Reachability = Reachability.REACHED
    problem: str = ""
    topic: ActualTopic | None = None
    brokers: Mapping[int, str | None] = field(default_factory=dict)
    measures: Mapping[int, Measures] | None = None
    older: str | None = None
    sharers: int = 0
    made_now: bool = False
    noted_now: bool = False
    failure: Failure | None = None


# --- what it comes to ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NoteCreating:
    """Write down that the topic is about to be made."""


Action = OnBrokers | AddFinalizer | RemoveFinalizer | NoteCreating


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision(DecisionOf[Action, TopicStatus]):
    """With actions on brokers the decision is made anew after them; what it says then is written."""

    @property
    def touches_brokers(self) -> bool:
        return any(isinstance(action, OnBrokers) for action in self.actions)
