"""What has to hold of followers' fetch sessions at any moment: nobody overlooks a partition that has something new."""

from __future__ import annotations

from odradek.handlers.context import BrokerParts
from odradek.handlers.fetch_news import SessionNews, _Settled
from odradek.handlers.fetch_sessions import Session, Target
from odradek.replication.purgatory import WaitingFetch


def wrong_news(parts: BrokerParts) -> str:
    """What does not hold of a leader's sessions; empty if all does."""
    listening: set[_Settled] = set()
    for session in parts.fetch_sessions:
        if session.news is not None:
            wrong = _wrong_with(session, session.news)
            if wrong:
                return f"session {session.id} of broker {session.news.broker_id}: {wrong}"
            listening.update(session.news.settled.values())
    for partition in parts.partitions:
        for one in partition.log_end_watch.waiting:
            if isinstance(one, _Settled) and one not in listening:
                return f"somebody listens at {partition.topic_partition} for a session that is over"
    return ""


def _wrong_with(session: Session, news: SessionNews) -> str:
    held, changed, settled = set(session.targets.values()), set(news.changed), set(news.settled)
    if changed & settled or changed | settled != held:
        return f"{len(held)} targets are {len(changed)} changed and {len(settled)} settled ones"
    for target in changed:
        partition = target.partition
        if partition is None or partition.gone is not None or partition.is_throttled_as_leader:
            continue
        for fetch in news.watch.waiting:
            assert isinstance(fetch, WaitingFetch)
            if not fetch._scheduled and fetch not in partition.log_end_watch.waiting:
                return (
                    f"the fetch that waits does not listen at {partition.topic_partition}, which has changed"
                )
    for target in settled:
        wrong = _unsettled_by(target, news)
        if wrong:
            return f"partition {target.index} is settled at {target.fetch_offset}, but {wrong}"
    return ""


def _unsettled_by(target: Target, news: SessionNews) -> str:
    partition = target.partition
    assert partition is not None
    followers = partition.followers
    if news.settled[target] not in partition.log_end_watch.waiting:
        return "nobody listens"
    if partition.refusal is not None or target.settled_epoch != partition.leader_epoch or followers is None:
        return f"its role is another one: {partition.refusal}, epoch {partition.leader_epoch}"
    if news.broker_id not in followers.in_sync:
        return "the follower is not in sync"
    ends = (partition.log.log_end_offset, partition.high_watermark, target.high_watermark)
    if set(ends) != {target.fetch_offset}:
        return f"the log's end, the high watermark and what was told of it are {ends}"
    if target.log_start_offset != partition.log.log_start_offset:
        return f"the log starts at {partition.log.log_start_offset}, told was {target.log_start_offset}"
    return ""
