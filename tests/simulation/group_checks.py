"""What has to hold of groups (I9) of all protocols; the members report as it happens.

- In one generation no partition is given to two members.
- Once another member has what one had, no request of that one succeeds before it is fenced.
- A member of a Streams group has no task and its standby.
- Nothing is skipped: a new owner of a partition fetches an offset no lower than the last acknowledged commit. Every
  offset below a committed one was delivered to some member.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tests.simulation.history import History


class GroupWatch:
    """One group, over all partitions of the topic."""

    def __init__(self, group_id: str, history: History) -> None:
        self.group_id = group_id
        self._history = history
        self._owners: dict[tuple[int, int], str] = {}
        self._committed: dict[int, int] = {}
        """The highest offset that was acknowledged to be committed, by partition."""
        self._handed_out: dict[int, set[int]] = {}
        self._has: dict[str, set[int]] = {}
        """What members think to own."""
        self._last_owner: dict[int, str] = {}
        self._standbys: dict[str, tuple[int, ...]] = {}

    def committed(self) -> dict[int, int]:
        """What must not be gone, at this moment."""
        return dict(self._committed)

    def owns(self, member: str, generation: int, partitions: Collection[int]) -> None:
        """A member was given these partitions in this generation."""
        self._history.add(member, f"owns {sorted(partitions)} of {self.group_id} in generation {generation}")
        self._history.require(
            generation >= 0, "I9", f"{member} owns partitions of {self.group_id} as no member"
        )
        for partition in partitions:
            owner = self._owners.setdefault((generation, partition), member)
            self._history.require(
                owner == member,
                "I9",
                f"{owner} and {member} both own {partition} in generation {generation} of {self.group_id}",
            )
            self._last_owner[partition] = member
        self._has.setdefault(member, set()).update(partitions)

    def keeps(self, member: str, partitions: Collection[int]) -> None:
        """A member has released all but these."""
        self._has.get(member, set()).intersection_update(partitions)

    def releases(self, member: str) -> None:
        """A member owns nothing any more: it left, or was fenced."""
        self._has.pop(member, None)
        self._standbys.pop(member, None)

    def taken_over(self, member: str) -> list[int]:
        """What a member thinks to own, and another one was given since."""
        return sorted(one for one in self._has.get(member, ()) if self._last_owner[one] != member)

    def stays(self, member: str, taken_over: Collection[int]) -> None:
        """A request of a member succeeded, which it sent when so much was taken over."""
        self._history.require(
            not taken_over,
            "I9",
            f"others were given {list(taken_over)} of {self.group_id}, and {member} is a member with them",
        )

    def stands_by(self, member: str, partitions: Collection[int], *, active: Collection[int]) -> None:
        """A member was given these standbys, beside its active tasks."""
        self._history.add(member, f"stands by for {sorted(partitions)} of {self.group_id}")
        self._history.require(
            set(partitions).isdisjoint(active),
            "I9",
            f"{member} has a task and its standby: {sorted(partitions)}, {sorted(active)}",
        )
        self._standbys[member] = tuple(partitions)

    def has_standbys(self, partitions: int) -> bool:
        """Whether each task has one standby."""
        found = sorted(number for numbers in self._standbys.values() for number in numbers)
        return found == list(range(partitions))

    def takes_up(self, member: str, offsets: Mapping[int, int], *, at_least: Mapping[int, int]) -> None:
        """A member begins at these offsets, having asked when `at_least` was committed."""
        self._history.add(member, f"begins at {dict(offsets)}")
        for partition, offset in offsets.items():
            self._history.require(
                offset >= at_least.get(partition, 0),
                "I9",
                f"{member} begins with {partition} at {offset}, and {at_least.get(partition, 0)} was committed",
            )

    def hands_out(self, partition: int, offset: int) -> None:
        """A member got a record."""
        self._handed_out.setdefault(partition, set()).add(offset)

    def acknowledges(self, member: str, offsets: Mapping[int, int]) -> None:
        """A commit succeeded."""
        self._history.add(member, f"committed {dict(offsets)}")
        for partition, offset in offsets.items():
            self._committed[partition] = max(offset, self._committed.get(partition, 0))

    def finish(self, found: Mapping[int, int]) -> None:
        """At the end: `found` is what the group has committed."""
        for partition, offset in self._committed.items():
            self._history.require(
                found.get(partition, 0) >= offset,
                "I9",
                f"{self.group_id} committed {partition}:{offset}, and is at {found.get(partition, 0)} now",
            )
        for partition, offset in found.items():
            missing = set(range(offset)) - self._handed_out.get(partition, set())
            self._history.require(
                not missing,
                "I9",
                f"{self.group_id} is at {partition}:{offset}, and no member was given {sorted(missing)[:5]}",
            )
