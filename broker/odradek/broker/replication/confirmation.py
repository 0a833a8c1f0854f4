"""Whether a leader still leads while the registry does not answer this broker: the rule, and the proof that it needs.

A leader without a registry cannot learn that another broker was elected. It is *confirmed* while every broker that
may have been elected instead followed it, in its leader epoch, a moment ago. A broker that knows of its own election
no longer follows.

The leader knows which brokers may have been elected. A controller elects from the in-sync set, else from the eligible
replicas (KIP-966). Neither set grows without the leader's own proposal.

A fetch proves that its sender followed when it sent it, not when it arrived. It may have waited in a network that was
broken, or in the buffers of a process that was stopped. A follower sends the next fetch of its session (KIP-227) only
after the answer to the one before. So the next fetch was sent after that answer, and the answer's time is the proof.

Pure: times are arguments, monotonic seconds. What it leaves out: which partitions a session names
(`broker.requests.fetch.sessions`), and when the registry counts as silent (`metadata.image.registration`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

NEVER: Final = float("-inf")
ALWAYS: Final = float("inf")


class Proof:
    """As of when one fetch session proves that its follower follows; one object for all of its partitions."""

    __slots__ = ("_answered_at", "as_of")

    def __init__(self) -> None:
        self._answered_at = NEVER
        self.as_of = NEVER
        """The follower followed all partitions of its session at this time or later."""

    def note_answer(self, *, now: float) -> None:
        """An answer of the session is ready to leave."""
        self._answered_at = now

    def note_next_fetch(self) -> None:
        """The next fetch of the session is here: it was sent after the last answer."""
        self.as_of = self._answered_at


def others_electable(
    *,
    own: int,
    replicas: Collection[int],
    in_sync: Collection[int],
    proposed: Collection[int],
    eligible: Collection[int],
    is_unclean_allowed: bool,
) -> frozenset[int]:
    """The brokers that may have been elected instead of `own`, as far as a leader can know.

    `in_sync` and `eligible` are the sets of the controller's newest state. `proposed` is the set that it has not yet
    answered. With `is_unclean_allowed` (unclean.leader.election.enable) any replica may lead.
    """
    everybody = {*in_sync, *proposed, *eligible}
    if is_unclean_allowed:
        everybody.update(replicas)
    return frozenset(everybody - {own})


def compute_confirmed_as_of(others: Collection[int], followed_as_of: Callable[[int], float]) -> float:
    """As of when all of `others` followed; ALWAYS where there are none.

    `followed_as_of` gives the time of one broker, NEVER for one that does not follow.
    """
    return min((followed_as_of(broker) for broker in others), default=ALWAYS)


def is_fresh(as_of: float, *, now: float, seconds_max: float) -> bool:
    """Whether a confirmation of that time still counts."""
    return now - as_of <= seconds_max
