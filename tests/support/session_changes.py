"""What always has to hold of followers' fetch sessions: none overlooks a partition that has something new."""

from __future__ import annotations

from odradek.broker.replication.purgatory import WaitingFetch
from odradek.broker.requests.fetch.reading import FetchTarget
from odradek.broker.requests.fetch.session_changes import SessionChanges, _UnchangedTarget
from odradek.broker.requests.fetch.sessions import FetchSession
from odradek.broker.requests.parts import FetchParts


def wrong_changes(parts: FetchParts) -> str:
    """What does not hold of a leader's sessions; empty if all does."""
    listening: set[_UnchangedTarget] = set()
    for session in parts.fetch_sessions:
        if session.changes is not None:
            wrong = _wrong_with(session, session.changes)
            if wrong:
                return f"session {session.id} of broker {session.changes.broker_id}: {wrong}"
            listening.update(session.changes.unchanged.values())
    for partition in parts.partitions:
        for one in partition.replica.log_end_watch.waiting:
            if isinstance(one, _UnchangedTarget) and one not in listening:
                return f"{partition.topic_partition} has a listener for a session that is over"
    return ""


def _wrong_with(session: FetchSession, changes: SessionChanges) -> str:
    held, changed, unchanged = set(session.targets.values()), set(changes.changed), set(changes.unchanged)
    if changed & unchanged or changed | unchanged != held:
        return f"{len(held)} targets are {len(changed)} changed and {len(unchanged)} unchanged ones"
    for target in changed:
        partition = target.partition
        if partition is None or partition.gone is not None or partition.replica.is_throttled_as_leader:
            continue
        for fetch in changes.watch.waiting:
            assert isinstance(fetch, WaitingFetch)
            if not fetch._scheduled and fetch not in partition.replica.log_end_watch.waiting:
                return (
                    f"the fetch that waits does not listen at {partition.topic_partition}, which has changed"
                )
    for target in unchanged:
        wrong = _changed_by(target, changes)
        if wrong:
            return f"partition {target.index} is unchanged at {target.fetch_offset}, but {wrong}"
    return ""


def _changed_by(target: FetchTarget, changes: SessionChanges) -> str:
    partition = target.partition
    assert partition is not None
    replica = partition.replica
    followers = None if partition.leader is None else partition.leader.followers
    if changes.unchanged[target] not in replica.log_end_watch.waiting:
        return "there is no listener"
    if replica.refusal is not None or target.matching_epoch != replica.leader_epoch or followers is None:
        return f"its role is another one: {replica.refusal}, epoch {replica.leader_epoch}"
    if changes.broker_id not in followers.in_sync:
        return "the follower is not in sync"
    ends = (partition.log.log_end_offset, partition.high_watermark, target.high_watermark)
    if set(ends) != {target.fetch_offset}:
        return f"the log's end, the high watermark and what was answered of it are {ends}"
    if target.log_start_offset != partition.log.log_start_offset:
        return f"the log starts at {partition.log.log_start_offset}, the answer was {target.log_start_offset}"
    return ""
