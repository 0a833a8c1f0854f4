"""The values of a decision about a Topic: desired, actual, and the steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from odradek_operator.gateways.topic_values import ActualTopic, Measures, OnBrokers
from odradek_operator.reconcilers.decisions import (
    ActualOf,
    DecisionOf,
    DesiredOf,
    RemoveFinalizer,
)
from odradek_operator.resources.topic import TopicResourceSpec, TopicStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredTopic(DesiredOf[TopicResourceSpec, TopicStatus]):
    """A Topic resource as it was read."""

    @property
    def topic(self) -> str:
        return self.spec.name or self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class ActualTopicState(ActualOf):
    """The actual state of a Topic. `brokers` has racks by broker id; `measures` is None unless they were asked for.

    `made_now`: this run has made the topic. `noted_now`: this run has noted in the status that it would.
    """

    topic: ActualTopic | None = None
    brokers: Mapping[int, str | None] = field(default_factory=dict)
    measures: Mapping[int, Measures] | None = None
    made_now: bool = False
    noted_now: bool = False


# --- decisions ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NoteCreating:
    """Note in the status that the topic is about to be made."""


Action = OnBrokers | RemoveFinalizer | NoteCreating


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDecision(DecisionOf[Action, TopicStatus]):
    """A decision about a Topic. After steps on brokers another decision follows, and only the last is written."""

    @property
    def touches_brokers(self) -> bool:
        return any(isinstance(action, OnBrokers) for action in self.actions)
