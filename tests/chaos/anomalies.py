"""What a checker found, and an account of it that a person can read: the events around it and the faults in force."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from tests.chaos.history import (
    REGISTRY,
    ErrorLogged,
    Event,
    FaultReported,
    Fetched,
    GroupReported,
    Probed,
    ProcessEnded,
    StateSeen,
    TopicAsked,
)

EVENTS_SHOWN_MAX: Final = 40
ANOMALIES_SHOWN_MAX: Final = 10
SECONDS_AROUND: Final = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Anomaly:
    """`invariant` is I1 to I14, or "-" where none of them is meant; `name` says which kind of breach it is.

    `at` is the time to look at, None where only the final logs show it; topic, partition and `group` narrow the
    account.
    """

    invariant: str
    name: str
    what: str
    at: float | None = None
    topic: str | None = None
    partition: int | None = None
    group: str | None = None

    def __str__(self) -> str:
        return f"{self.invariant} {self.name}: {self.what}"


def account(anomalies: Sequence[Anomaly], events: Sequence[Event]) -> str:
    """All anomalies, and for the first of each name what happened around it."""
    lines = [f"{len(anomalies)} anomalies"]
    lines += [f"  {anomaly}" for anomaly in anomalies[: 5 * ANOMALIES_SHOWN_MAX]]
    began = min((event.at for event in events), default=0.0)
    shown: set[str] = set()
    for anomaly in anomalies:
        if anomaly.name not in shown and len(shown) < ANOMALIES_SHOWN_MAX:
            shown.add(anomaly.name)
            lines += ["", *_around(anomaly, events, began)]
    return "\n".join(lines)


def _around(anomaly: Anomaly, events: Sequence[Event], began: float) -> Iterable[str]:
    yield f"--- {anomaly}"
    at = anomaly.at
    if at is None:
        yield "no moment is known; all faults of the round:"
        yield from (_line(event, began) for event in events if isinstance(event, FaultReported))
        return
    yield f"faults in force at {at - began:.3f} s:"
    yield from (f"    {what}" for what in _in_force(events, at))
    near = [
        event for event in events if abs(event.at - at) <= SECONDS_AROUND and _is_of_interest(event, anomaly)
    ]
    near.sort(key=lambda event: abs(event.at - at))
    yield "what happened around it:"
    for event in sorted(near[:EVENTS_SHOWN_MAX], key=lambda event: event.at):
        yield _line(event, began)


def _in_force(events: Sequence[Event], at: float) -> Iterable[str]:
    begun: dict[int, FaultReported] = {}
    for event in events:
        if isinstance(event, FaultReported) and event.at <= at:
            if event.has_ended:
                begun.pop(event.number, None)
            else:
                begun[event.number] = event
    return [event.what for event in begun.values()] or ["none"]


def _is_of_interest(event: Event, anomaly: Anomaly) -> bool:
    if isinstance(event, FaultReported | Probed | ProcessEnded):
        return True
    if isinstance(event, GroupReported):
        return event.group == anomaly.group
    if isinstance(event, Fetched) and not event.records and anomaly.invariant not in ("I5", "I8"):
        return False
    if isinstance(event, StateSeen) and event.source != REGISTRY and anomaly.invariant not in ("I6", "I7"):
        return False
    topic, partition = getattr(event, "topic", None), getattr(event, "partition", None)
    if anomaly.topic is not None and topic is not None:
        return topic == anomaly.topic and partition in (None, anomaly.partition)
    return anomaly.group is None and isinstance(event, StateSeen | TopicAsked | ErrorLogged)


def _line(event: Event, began: float) -> str:
    if isinstance(event, FaultReported):
        return f"  {event.at - began:8.3f} {'  ended' if event.has_ended else 'FAULT '} {event.what}"
    if isinstance(event, StateSeen):
        return (
            f"  {event.at - began:8.3f} {event.source} says of {event.topic}-{event.partition}: leader {event.leader}, "
            f"epoch {event.epoch}, in sync {list(event.in_sync)}"
        )
    return f"  {event.at - began:8.3f} {_short(event)}"


def _short(event: Event) -> str:
    text = str(event)
    return text if len(text) < 400 else f"{text[:300]} … {text[-80:]}"
