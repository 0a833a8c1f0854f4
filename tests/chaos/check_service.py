"""I12, I14 and what else a user would miss: requests that never end, topics, processes that give up, errors in logs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tests.chaos.anomalies import Anomaly
from tests.chaos.final_logs import FinalState
from tests.chaos.history import (
    Acknowledged,
    ErrorLogged,
    Event,
    Probed,
    ProcessEnded,
    Refused,
    Sent,
    TopicAsked,
    Trespassed,
    record_name,
)


def check_service(events: Sequence[Event], final: FinalState) -> Iterator[Anomaly]:
    for event in events:
        if isinstance(event, Probed) and event.error:
            what = f"{event.what}, {event.at - event.begun_at:.1f} s: {event.error}"
            yield Anomaly(invariant="I12", name="unavailable after healing", what=what, at=event.at)
        elif isinstance(event, ProcessEnded) and not event.excuse:
            what = f"{event.process} ended with {event.exit_code}: {event.said}"
            yield Anomaly(invariant="-", name="process ended by itself", what=what, at=event.at)
        elif isinstance(event, Trespassed):
            yield Anomaly(invariant="I14", name="denied and done", what=event.what, at=event.at)
        elif isinstance(event, ErrorLogged):
            what = f"{event.process}: {event.text}"
            yield Anomaly(invariant="-", name="error in the log", what=what, at=event.at)
    yield from _check_answers(events)
    yield from _check_topics(events, final)


def _check_answers(events: Sequence[Event]) -> Iterator[Anomaly]:
    waiting: dict[str, Sent] = {}
    for event in events:
        if isinstance(event, Sent):
            waiting[record_name(event.producer, event.number)] = event
        elif isinstance(event, Acknowledged | Refused):
            waiting.pop(record_name(event.producer, event.number), None)
    for name, sent in waiting.items():
        what = f"{name} was sent to {sent.topic}-{sent.partition} and its producer got no answer to the end"
        yield Anomaly(
            invariant="I12",
            name="request without an answer",
            what=what,
            at=sent.at,
            topic=sent.topic,
            partition=sent.partition,
        )


def _check_topics(events: Sequence[Event], final: FinalState) -> Iterator[Anomaly]:
    """A topic that was made is there, one that was deleted is not; either is fine while one answer is unknown.

    Each name is made once and by one client, one request after the other.
    """
    asked: dict[str, list[TopicAsked]] = {}
    for event in events:
        if isinstance(event, TopicAsked):
            asked.setdefault(event.topic, []).append(event)
    for topic, history in asked.items():
        deletions = [event for event in history if event.is_deletion and event.outcome != "refused"]
        made = [event for event in history if not event.is_deletion and event.outcome == "done"]
        if made and not deletions and topic not in final.topics:
            what = f"{topic} was made and is not there"
            yield Anomaly(invariant="I1", name="lost topic", what=what, at=made[0].at, topic=topic)
        if any(event.outcome == "done" for event in deletions) and topic in final.topics:
            what = f"{topic} was deleted and is there"
            yield Anomaly(
                invariant="I2", name="resurrected topic", what=what, at=deletions[-1].at, topic=topic
            )
