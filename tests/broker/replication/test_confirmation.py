"""While the registry is silent, a leader is confirmed only where no other broker could have led until just before."""

from __future__ import annotations

import itertools

from odradek.broker.replication.confirmation import (
    ALWAYS,
    NEVER,
    Proof,
    compute_confirmed_as_of,
    is_fresh,
    others_electable,
)
from odradek.broker.requests.fetch.sessions import FetchSession, FetchSessionCache
from odradek.wire.protocol.hot.fetch_request import AskedPartition

TOPIC, OTHER_TOPIC = b"t" * 16, b"u" * 16
LEADER, VERSION = 1, 17


def electable(
    *,
    in_sync: tuple[int, ...] = (1, 2),
    proposed: tuple[int, ...] = (),
    eligible: tuple[int, ...] = (),
    is_unclean_allowed: bool = False,
) -> frozenset[int]:
    return others_electable(
        own=LEADER,
        replicas=(1, 2, 3, 4),
        in_sync=in_sync,
        proposed=proposed,
        eligible=eligible,
        is_unclean_allowed=is_unclean_allowed,
    )


def test_in_sync_proposed_and_eligible_replicas_may_be_elected() -> None:
    assert electable() == {2}
    assert electable(in_sync=(1,)) == frozenset()
    assert electable(proposed=(1, 2, 3)) == {2, 3}
    assert electable(in_sync=(1, 2, 3), proposed=(1, 2)) == {2, 3}
    assert electable(in_sync=(1,), eligible=(4,)) == {4}
    assert electable(in_sync=(1,), is_unclean_allowed=True) == {2, 3, 4}


def test_all_of_them_have_to_follow() -> None:
    followed = {2: 5.0, 3: 7.0}
    assert compute_confirmed_as_of({2, 3}, lambda broker: followed[broker]) == 5.0
    assert compute_confirmed_as_of({2, 3, 4}, lambda broker: followed.get(broker, NEVER)) == NEVER
    assert compute_confirmed_as_of(frozenset(), lambda broker: NEVER) == ALWAYS


def test_a_confirmation_expires() -> None:
    assert is_fresh(8.0, now=10.0, seconds_max=2.0)
    assert not is_fresh(8.0, now=10.1, seconds_max=2.0)
    assert not is_fresh(NEVER, now=10.0, seconds_max=2.0)
    assert is_fresh(ALWAYS, now=10.0, seconds_max=2.0)


def test_a_fetch_proves_what_was_when_the_answer_before_it_left() -> None:
    proof = Proof()
    proof.note_next_fetch()
    assert proof.as_of == NEVER
    proof.note_answer(now=3.0)
    assert proof.as_of == NEVER, "whether the answer was ever read is not known"
    proof.note_next_fetch()  # it may have been on its way for an hour
    assert proof.as_of == 3.0
    proof.note_answer(now=4.0)
    assert proof.as_of == 3.0


class World:
    """The sessions of a leader's followers, on a clock that is set."""

    def __init__(self) -> None:
        self.now = 0.0
        ids = itertools.count(1)
        self.sessions = FetchSessionCache(slots=9, now=lambda: self.now, random_id=lambda: next(ids))

    def open(self, follower_id: int, *asked: AskedPartition) -> FetchSession:
        session = self.sessions.create(asked, uses_topic_ids=True, follower_id=follower_id)
        assert session is not None
        session.proof.note_answer(now=self.now)
        return session

    def ask(
        self, session: FetchSession, *asked: AskedPartition, forget: tuple[int, ...] = (), by: int = 0
    ) -> None:
        self.sessions.advance(
            session.id,
            session.epoch,
            asked,
            [(TOPIC, index) for index in forget],
            version=VERSION,
            follower_id=by or session.follower_id,
        )

    def answer(self, session: FetchSession) -> None:
        session.proof.note_answer(now=self.now)

    def followed(self, broker_id: int, index: int = 0, *, epoch: int = 5, topic: bytes = TOPIC) -> float:
        return self.sessions.get_followed_as_of(broker_id, topic, index, epoch)


def target(index: int = 0, *, epoch: int = 5, offset: int = 0) -> AskedPartition:
    return TOPIC, index, offset, 100, epoch, 4, -1


def test_a_partition_that_is_not_named_again_counts_as_followed() -> None:
    world = World()
    session = world.open(2, target(0), target(1))
    assert world.followed(2) == NEVER, "one question alone shows no time"
    world.now = 10.0
    world.ask(session, target(1, offset=7))
    assert (world.followed(2, 0), world.followed(2, 1)) == (0.0, 0.0)
    world.answer(session)
    world.now = 500.0
    world.ask(session)
    assert (world.followed(2, 0), world.followed(2, 1)) == (10.0, 10.0)
    assert world.followed(3) == NEVER


def test_followers_of_another_epoch_or_topic_do_not_count() -> None:
    world = World()
    session = world.open(2, target(0), target(1), target(2))
    world.now = 1.0
    world.ask(session, target(1, epoch=6), forget=(0,))
    assert [world.followed(2, index) for index in range(3)] == [NEVER, NEVER, 0.0]
    assert world.followed(2, 1, epoch=6) == 0.0
    assert world.followed(2, 2, topic=OTHER_TOPIC) == NEVER
    assert world.followed(2, 2, epoch=4) == NEVER


def test_what_another_broker_asks_in_the_session_proves_nothing() -> None:
    world = World()
    session = world.open(2, target(0))
    world.ask(session, by=3)
    assert world.followed(2) == NEVER
    assert world.followed(3) == NEVER


def test_a_session_that_is_over_proves_nothing() -> None:
    world = World()
    old = world.open(2, target(0))
    world.ask(old)
    world.now = 9.0
    new = world.open(2, target(0))
    assert world.followed(2) == 0.0, "it is still true that it followed then"
    world.now = 12.0
    world.ask(new)
    assert world.followed(2) == 9.0
    world.sessions.remove(new.id)
    assert world.followed(2) == 0.0
    world.sessions.remove(old.id)
    assert world.followed(2) == NEVER
