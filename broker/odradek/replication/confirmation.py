"""Whether a leader still leads while the registry answers nobody here: the rule, and the proof that it asks for.

A leader whose registry is silent cannot hear that another broker was elected. It is *confirmed* as long as every
broker that could have been elected instead still follows it, in its leader epoch, as of a moment ago. A broker that was
elected and has heard of it does not follow any more. Who could have been elected is known here: a controller takes a
leader from the in-sync set, else from the eligible replicas (KIP-966), and neither grows without the leader's own
proposal.

A fetch proves that its sender followed when it sent it, not when it arrived: it may have waited behind a cut, or in the
buffers of a process that stood still. A follower sends the next fetch of its session (KIP-227) only after it has the
answer to the one before. So the next fetch was sent after that answer left, and the time of the answer is the proof.

Pure: times are handed in, seconds that never go back. What it leaves out: which partitions a session names
(`handlers.fetch_sessions`), and when the registry counts as silent (`cluster.registration`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

NEVER: Final = float("-inf")
ALWAYS: Final = float("inf")


class Proof:
    """As of when one fetch session shows that its follower follows; one object for all partitions of the session."""

    __slots__ = ("_answered_at", "as_of")

    def __init__(self) -> None:
        self._answered_at = NEVER
        self.as_of = NEVER
        """The follower followed, all that its session names, at this time or later."""

    def answered(self, *, now: float) -> None:
        """An answer of the session is ready to leave."""
        self._answered_at = now

    def asked_again(self) -> None:
        """The next fetch of the session is here: it left after the last answer had come."""
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
    """Who may have been elected instead of `own`, as far as its leader can know.

    `in_sync` and `eligible` are the sets of the controller's last word, `proposed` the set that it was asked for and
    has not answered. With `is_unclean_allowed` (unclean.leader.election.enable) any replica may lead.
    """
    everybody = {*in_sync, *proposed, *eligible}
    if is_unclean_allowed:
        everybody.update(replicas)
    return frozenset(everybody - {own})


def confirmed_as_of(others: Collection[int], followed_as_of: Callable[[int], float]) -> float:
    """As of when all of `others` followed; ALWAYS where there are none. `followed_as_of` gives the time of one broker,
    NEVER for one that does not follow.
    """
    return min((followed_as_of(broker) for broker in others), default=ALWAYS)


def is_fresh(as_of: float, *, now: float, seconds_max: float) -> bool:
    """Whether a confirmation as of then still counts."""
    return now - as_of <= seconds_max
