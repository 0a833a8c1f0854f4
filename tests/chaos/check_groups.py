"""I9: what members of groups took and committed, against the log of commits.

Ownership is judged by commits, not by what members believe (`tests.support.group_commits` says why). Positions are
judged by the records that each member took. While it holds a partition they have no gap and never go backwards. They
begin no earlier than the offset that was committed when it was assigned. In the end some member took every record.

One step back is librdkafka's own. It requests the end of an older epoch, reads on, and then takes the answer for one
about its present epoch. (`rd_kafka_toppar_leader_update` sets what is to be validated also while such a request is
under way.) Whether brokers answer the right ends of epochs is checked with the leaders.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Final

from tests.chaos.anomalies import Anomaly
from tests.chaos.final_logs import FinalState
from tests.chaos.history import EpochEndAnswered, Event, GroupReported
from tests.support.group_churn import History
from tests.support.group_commits import faults

# What `group_commits` says of each kind of fault, the more particular first.
_NAMES: Final = (
    ("is not in the log", "lost commit"),
    ("is after another member's", "two members own a partition"),
    ("is after", "commit out of order"),
    ("follows", "committed offset went back"),
)


@dataclass(slots=True)
class _Group:
    history: History = field(default_factory=History)
    events: list[GroupReported] = field(default_factory=list)


def check_groups(events: Sequence[Event], final: FinalState, *, topic: str) -> Iterator[Anomaly]:
    """`topic` is what every group consumes."""
    groups: dict[str, _Group] = {}
    older_ends = {
        (event.partition, event.end_offset)
        for event in events
        if isinstance(event, EpochEndAnswered) and event.topic == topic and event.epoch < event.leader_epoch
    }
    for event in sorted(
        (event for event in events if isinstance(event, GroupReported)), key=lambda event: event.at
    ):
        group = groups.setdefault(event.group, _Group())
        group.events.append(event)
        if event.protocol == "consumer":
            group.history.modern.add(event.member)
        if event.what == "gone":
            group.history.gone(event.member)
        else:
            group.history.note(event.member, event.what, event.at, list(event.details))
    for name, group in groups.items():
        yield from _check_commits(name, group, final, topic)
        yield from _check_positions(name, group, older_ends)
        yield from _check_whole(name, group, final, topic)


def _check_commits(name: str, group: _Group, final: FinalState, topic: str) -> Iterator[Anomaly]:
    commits = group.history.commits
    of_group = final.commits.get(name, {})
    logged = {
        partition: entries.only(commits)
        for (of_topic, partition), entries in of_group.items()
        if of_topic == topic
    }
    unknown = {
        entry
        for entries in of_group.values()
        for entry, _ in entries.commits
        if entry not in commits and entry
    }
    for commit in sorted(unknown):
        yield _anomaly(name, "phantom commit", f"{commit} is in the log and no member made it", None)
    for fault in faults(commits, logged):
        kind = next(kind for words, kind in _NAMES if words in fault)
        mentioned = [commit for commit in commits.values() if f"{commit.name} (" in fault]
        at = max((commit.begun_at for commit in mentioned), default=None)
        yield _anomaly(name, kind, fault, at)


def _anomaly(group: str, kind: str, what: str, at: float | None) -> Anomaly:
    return Anomaly(invariant="I9", name=kind, what=f"group {group}: {what}", at=at, group=group)


def _check_positions(name: str, group: _Group, older_ends: Container[tuple[int, int]]) -> Iterator[Anomaly]:
    """`older_ends` are the partition and offset of ends that brokers answered for an epoch before their own."""
    commits = group.history.commits
    committed: dict[int, int] = {}  # by partition, acknowledged so far
    due: dict[tuple[int, int], int] = {}  # (member, partition) -> the next offset
    floor: dict[tuple[int, int], int] = {}  # (member, partition) -> committed when it was assigned
    for event in group.events:
        if event.what == "committed":
            for partition, position in commits[event.details[0]].positions.items():
                committed[partition] = max(committed.get(partition, 0), position)
        elif event.what in ("assigned", "revoked", "lost", "gone"):
            partitions = event.details or [
                partition for member, partition in due if member == event.member and event.what == "gone"
            ]
            for partition in list(partitions):
                due.pop((event.member, partition), None)
                floor.pop((event.member, partition), None)
                if event.what == "assigned":
                    floor[event.member, partition] = committed.get(partition, 0)
        elif event.what == "got":
            for partition, first, last in event.details:
                key = (event.member, partition)
                if first < floor.get(key, 0):
                    what = f"member {event.member} begins partition {partition} at {first}, {floor[key]} was committed"
                    yield _anomaly(name, "committed offset went back", what, event.at)
                floor.pop(key, None)
                expected = due.get(key, first)
                if first < expected and (partition, first) in older_ends:
                    expected = first
                if expected != first:
                    kind = "consumer position went back" if first < expected else "skipped record"
                    what = f"member {event.member} took {first} of partition {partition}, {expected} was due"
                    yield _anomaly(name, kind, what, event.at)
                due[key] = last + 1


def _check_whole(name: str, group: _Group, final: FinalState, topic: str) -> Iterator[Anomaly]:
    """Some member took every record below the last commit, and no commit is above the log's end."""
    for (of_topic, partition), state in final.partitions.items():
        log = state.logs.get(state.leader)
        if of_topic != topic or log is None:
            continue
        taken = group.history.taken.get(partition, set())
        logged = final.commits.get(name, {}).get((topic, partition))
        end = logged.commits[-1][1] if logged else 0
        missing = [one.offset for one in log.records if one.offset < end and one.offset not in taken]
        if missing:
            what = f"partition {partition} is committed up to {end}, and no member took {missing[:10]}"
            yield _anomaly(name, "skipped record", what, _begun(group, partition, missing[0]))
        if beyond := sorted(offset for offset in taken if offset >= log.end):
            what = f"partition {partition} ends at {log.end}, and {beyond[:10]} were taken"
            yield _anomaly(name, "phantom record", what, None)


def _begun(group: _Group, partition: int, offset: int) -> float | None:
    """When the first commit beyond an offset began."""
    begun = min(
        (
            commit.begun_at
            for commit in group.history.commits.values()
            if commit.positions.get(partition, 0) > offset
        ),
        default=inf,
    )
    return None if begun == inf else begun
