"""Plans that level the load of brokers, as pure functions: from a picture of the cluster to an ordered list of moves.

The goals, in this order: racks, bytes on disks, replicas, leaders, bytes in, bytes out. A move for one goal never makes
an earlier goal worse. Two rules are hard: no broker and no machine has a partition twice, and no partition is in fewer
racks than before. The other goals hold within a tolerance. Brokers within it are left alone, and a move that gains
little is not made. Of the moves that help, the planner takes those that gain most for a byte moved.

Bytes on disks are levelled by capacity where all capacities are known, else each broker gets as many. Leaders are
preferred leaders, since those lead again by themselves. The same picture always gives the same plan, and the plan for
its result is empty. The next plan continues one that a bound ended early.

What it leaves out: single log directories of a broker, and swaps of two replicas. `load_measuring` has the picture.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from odradek.client.admin.balance_values import (
    BalancedBroker,
    BalanceGoal,
    BalancePlan,
    BalanceTolerance,
    BrokerTotals,
    ClusterLoad,
    PartitionLoad,
)
from odradek.client.admin.plans import Plan
from odradek.foundation.client_limits import (
    BALANCE_CANDIDATES_MAX,
    BALANCE_DISK_BYTES_MIN,
    BALANCE_FREE_SHARE_MIN,
    BALANCE_GAIN_SHARE_MIN,
    BALANCE_ROWS_MAX,
    BALANCE_SIZE_STEP_BYTES,
    BALANCE_STEPS_MAX,
)
from odradek.foundation.ids import TopicPartition

_NO_RACK: Final = ""
# What a move costs besides its bytes, in bytes: a request, an election, the opening of files.
_MOVE_OVERHEAD_BYTES: Final = 1 << 20


# Numbers first: a broker that lacks both replicas and bytes is given many small ones, and then a few large ones.
_ORDER: Final = (BalanceGoal.REPLICAS, *BalanceGoal)
_COUNTED: Final = (BalanceGoal.REPLICAS, BalanceGoal.LEADERS)


def plan_balance(
    load: ClusterLoad, tolerance: BalanceTolerance | None = None, *, steps_max: int = BALANCE_STEPS_MAX
) -> BalancePlan:
    """The moves that level the brokers' load. Its time grows with partitions times moves' candidates, and is seconds
    for ten thousand partitions: call it in a thread.
    """
    levels = _Levels(load, tolerance or BalanceTolerance(), steps_max)
    levels.run()
    return levels.plan()


def excesses(load: ClusterLoad, tolerance: BalanceTolerance | None = None) -> tuple[int, ...]:
    """How far brokers are outside the tolerance: a sum for each goal in their order, after the racks that are missing.
    A plan makes the tuple smaller, or is empty.
    """
    levels = _Levels(load, tolerance or BalanceTolerance(), 0)
    return (levels.count_missing_racks(), *(sum(levels.excess(goal).values()) for goal in BalanceGoal))


@dataclass(slots=True)
class _Band:
    """What brokers have of one goal, and how much they should have."""

    load: dict[int, int]
    target: dict[int, int]
    lower: dict[int, int]
    upper: dict[int, int]
    gain_min: int

    def excess(self, broker: int) -> int:
        load = self.load[broker]
        return max(0, load - self.upper[broker], self.lower[broker] - load)

    def gain(self, donor: int, receiver: int, amount: int) -> int:
        """How much less is outside the tolerance when `amount` goes from one to the other."""
        before = self.excess(donor) + self.excess(receiver)
        load, lower, upper = self.load, self.lower, self.upper
        given, received = load[donor] - amount, load[receiver] + amount
        after = max(0, given - upper[donor], lower[donor] - given)
        return before - after - max(0, received - upper[receiver], lower[receiver] - received)

    def surplus(self, broker: int) -> int:
        return self.load[broker] - self.target[broker]

    def shift(self, donor: int, receiver: int, amount: int) -> None:
        self.load[donor] -= amount
        self.load[receiver] += amount

    def pairs(self, receivers: Iterable[int], closed: set[tuple[int, int]]) -> Iterator[tuple[int, int]]:
        """Donor and receiver, the fullest and the emptiest first, where one of them is outside the tolerance."""
        emptiest = sorted(receivers, key=lambda broker: (self.surplus(broker), broker))
        for donor in sorted(self.load, key=lambda broker: (-self.surplus(broker), broker)):
            is_over = self.load[donor] > self.upper[donor]
            for receiver in emptiest:
                if self.surplus(receiver) >= self.surplus(donor):
                    break
                if not is_over and self.load[receiver] >= self.lower[receiver]:
                    continue
                if (donor, receiver) not in closed:
                    yield donor, receiver

    def find_amount(self, donor: int, receiver: int) -> int:
        """The amount that is best to move: it brings neither past its target."""
        over, under = self.surplus(donor), -self.surplus(receiver)
        return max(min(over, under) if over > 0 and under > 0 else (over + under) // 2, 1)


def _find_room(brokers: Mapping[int, BalancedBroker]) -> dict[int, int | None]:
    """The bytes that a plan may bring to each broker; None without a limit. What leaves one is not counted.

    A share of its volumes stays free, or as much as the fullest of the others has. So a full cluster is levelled too,
    and so are brokers whose volumes share one disk.
    """
    known = {
        number: (one.free_bytes, one.capacity_bytes)
        for number, one in brokers.items()
        if one.free_bytes is not None and one.capacity_bytes
    }
    free_shares = {
        number: free_bytes / capacity_bytes for number, (free_bytes, capacity_bytes) in known.items()
    }
    fullest = sorted(known, key=free_shares.__getitem__)[:2]
    room: dict[int, int | None] = dict.fromkeys(brokers)
    for number, (free_bytes, capacity_bytes) in known.items():
        kept_bytes = int(capacity_bytes * BALANCE_FREE_SHARE_MIN)
        other = next((one for one in fullest if one != number), None)
        if other is not None:
            as_full_bytes = int(capacity_bytes * free_shares[other]) - BALANCE_DISK_BYTES_MIN
            kept_bytes = min(kept_bytes, max(as_full_bytes, 0))
        room[number] = free_bytes - kept_bytes
    return room


class _Levels:
    """A picture that is changed, step by step, until no step helps."""

    def __init__(self, load: ClusterLoad, tolerance: BalanceTolerance, steps_max: int) -> None:
        self._load = load
        self._steps_left = steps_max
        self._racks = {broker: one.rack or _NO_RACK for broker, one in load.brokers.items()}
        self._machines = {broker: one.machine for broker, one in load.brokers.items() if one.machine}
        self._members = sorted(broker for broker, one in load.brokers.items() if one.takes_part)
        self._receivers = [broker for broker in self._members if load.brokers[broker].may_receive]
        # Partitions of all topics alternate, so that equal ones of a topic are not all moved.
        self._names = sorted(load.partitions, key=lambda where: (where.partition, where.topic))
        self._parts = [load.partitions[where] for where in self._names]
        self._now = [list(one.replicas) for one in self._parts]
        self._touched: dict[int, None] = {}
        self._room = _find_room({broker: load.brokers[broker] for broker in self._members})
        self._without_room: set[int] = set()
        self._bands = self._find_bands(tolerance)

    # --- what is wanted ------------------------------------------------------------------------------------------

    def _find_bands(self, tolerance: BalanceTolerance) -> list[_Band]:
        bands = []
        for goal in BalanceGoal:
            load = dict.fromkeys(self._members, 0)
            for number, replicas in enumerate(self._now):
                for place, broker in enumerate(replicas):
                    if broker in load:
                        load[broker] += self._amount(goal, number, is_leader=place == 0)
            bands.append(self._find_band(goal, load, tolerance))
        return bands

    def _find_band(self, goal: BalanceGoal, load: dict[int, int], tolerance: BalanceTolerance) -> _Band:
        total = sum(load.values())
        band = _Band(load, {}, {}, {}, gain_min=1)
        shares = self._shares(goal)
        for broker, share in shares.items():
            fair = total * share
            band.target[broker] = round(fair)
            if goal in _COUNTED:
                band.lower[broker] = min(math.floor(fair), math.ceil(fair * (1 - tolerance.share)))
                band.upper[broker] = max(math.ceil(fair), math.floor(fair * (1 + tolerance.share)))
            else:
                floor = tolerance.disk_bytes if goal is BalanceGoal.DISK else tolerance.bytes_per_second
                width = max(math.ceil(fair * tolerance.share), floor)
                band.lower[broker] = max(band.target[broker] - width, 0)
                band.upper[broker] = band.target[broker] + width
                band.gain_min = max(band.gain_min, int(width * BALANCE_GAIN_SHARE_MIN))
        return band

    def _shares(self, goal: BalanceGoal) -> dict[int, float]:
        """The part of all that each broker should have."""
        capacities = {broker: self._load.brokers[broker].capacity_bytes for broker in self._members}
        known = [one for one in capacities.values() if one]
        if goal is BalanceGoal.DISK and len(known) == len(capacities):
            return {broker: (one or 0) / sum(known) for broker, one in capacities.items()}
        return dict.fromkeys(self._members, 1 / max(len(self._members), 1))

    def _amount(self, goal: BalanceGoal, number: int, *, is_leader: bool) -> int:
        """What one replica adds to its broker."""
        part = self._parts[number]
        if goal is BalanceGoal.DISK:
            return part.size_bytes
        if goal is BalanceGoal.REPLICAS:
            return 1
        if goal is BalanceGoal.BYTES_IN:
            return part.bytes_in_per_second
        if not is_leader:
            return 0
        return 1 if goal is BalanceGoal.LEADERS else part.bytes_out_per_second

    def excess(self, goal: BalanceGoal) -> dict[int, int]:
        """How far each broker is outside the tolerance."""
        return {broker: self._bands[goal].excess(broker) for broker in self._members}

    # --- steps ---------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Level goal after goal, until a whole pass changes nothing. Each step makes `excesses` smaller, so it ends."""
        has_changed = True
        while has_changed and self._steps_left > 0:
            has_changed = self._spread_racks()
            for goal in _ORDER:
                if goal in (BalanceGoal.LEADERS, BalanceGoal.BYTES_OUT):
                    has_changed |= self._move_leaders(goal)
                has_changed |= self._move_replicas(goal)

    def _move_replicas(self, goal: BalanceGoal) -> bool:
        """Level one goal by moves of replicas. Returns whether there was any."""
        if not any(self.excess(goal).values()):
            return False
        candidates = self._candidates(goal)
        pick = (
            self._pick_counted(goal, candidates) if goal in _COUNTED else self._pick_sized(goal, candidates)
        )
        return self._level(goal, pick, self._receivers, self._move)

    def _move_leaders(self, goal: BalanceGoal) -> bool:
        """Level one goal by leaders that change, which moves no bytes. Returns whether there was any."""
        if not any(self.excess(goal).values()):
            return False
        by_pair: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for number, replicas in enumerate(self._now):
            amount = self._amount(goal, number, is_leader=True)
            for follower in replicas[1:]:
                by_pair.setdefault((replicas[0], follower), []).append((-amount, number))
        for rows in by_pair.values():
            rows.sort()
        band = self._bands[goal]

        def pick(donor: int, receiver: int) -> int | None:
            rows = by_pair.get((donor, receiver), [])
            is_kept = (
                goal is BalanceGoal.LEADERS or self._bands[BalanceGoal.LEADERS].gain(donor, receiver, 1) >= 0
            )
            if not is_kept:
                return None
            best, best_gain = None, band.gain_min - 1
            for place, (amount, number) in enumerate(rows[:BALANCE_ROWS_MAX]):
                gain = band.gain(donor, receiver, -amount)
                if gain > best_gain and self._now[number][0] == donor and receiver in self._now[number]:
                    best, best_gain = place, gain
                    if goal is BalanceGoal.LEADERS:
                        break
            return None if best is None else rows.pop(best)[1]

        return self._level(goal, pick, self._members, self._lead)

    def _level(
        self,
        goal: BalanceGoal,
        pick: Callable[[int, int], int | None],
        receivers: Sequence[int],
        take: Callable[[int, int, int], None],
    ) -> bool:
        band, closed = self._bands[goal], set[tuple[int, int]]()
        has_moved, is_done = False, False
        while self._steps_left > 0 and not is_done:
            is_done = True
            for donor, receiver in band.pairs(receivers, closed):
                number = pick(donor, receiver)
                if number is None:
                    closed.add((donor, receiver))
                    continue
                take(number, donor, receiver)
                has_moved, is_done = True, False
                break
        return has_moved

    def _candidates(self, goal: BalanceGoal) -> dict[int, list[tuple[int, int, int]]]:
        """(amount, bytes, number) of each broker's replicas that count for the goal.

        Where replicas are counted, bytes are in steps. Within one, partitions of all topics alternate: a busy topic
        that keeps little would else never come to a new broker.
        """
        step_bytes = BALANCE_SIZE_STEP_BYTES if goal in _COUNTED else 1
        found: dict[int, list[tuple[int, int, int]]] = {broker: [] for broker in self._members}
        for number, replicas in enumerate(self._now):
            # A partition with several replicas gets another leader without a move.
            if goal is BalanceGoal.LEADERS and len(replicas) > 1:
                continue
            size_bytes = self._parts[number].size_bytes // step_bytes * step_bytes
            for place, broker in enumerate(replicas):
                amount = self._amount(goal, number, is_leader=place == 0)
                if amount > 0 and broker in found:
                    found[broker].append((amount, size_bytes, number))
        for rows in found.values():
            rows.sort()
        return found

    def _pick_counted(
        self, goal: BalanceGoal, candidates: Mapping[int, Sequence[tuple[int, int, int]]]
    ) -> Callable[[int, int], int | None]:
        """Takes the smallest replica that may move. Each is considered once for a pair of brokers."""
        rests: dict[tuple[int, int], Iterator[tuple[int, int, int]]] = {}
        band = self._bands[goal]

        def pick(donor: int, receiver: int) -> int | None:
            if band.gain(donor, receiver, 1) < band.gain_min:
                return None
            rest = rests.setdefault((donor, receiver), iter(candidates[donor]))
            for _, _, number in rest:
                if self._may_move(number, donor, receiver) and self._keeps_earlier(
                    goal, number, donor, receiver
                ):
                    return number
            return None

        return pick

    def _pick_sized(
        self, goal: BalanceGoal, candidates: Mapping[int, list[tuple[int, int, int]]]
    ) -> Callable[[int, int], int | None]:
        """Takes the replica that gains most for a byte, of those nearest to the amount that should move."""
        band = self._bands[goal]

        def pick(donor: int, receiver: int) -> int | None:
            rows = candidates[donor]
            start = bisect_right(rows, band.find_amount(donor, receiver), key=lambda row: row[0])
            # Larger ones bring a broker past its target, and may be of help all the same.
            for places in (range(start - 1, -1, -1), range(start, len(rows))):
                found = self._best_of(goal, rows, places, donor, receiver)
                if found is not None:
                    _, _, number = rows.pop(found)
                    return number
            return None

        return pick

    def _best_of(
        self,
        goal: BalanceGoal,
        rows: Sequence[tuple[int, int, int]],
        places: range,
        donor: int,
        receiver: int,
    ) -> int | None:
        """The place of the best row among the first that may move."""
        band = self._bands[goal]
        best, best_value, considered = None, 0.0, 0
        for place in places[:BALANCE_ROWS_MAX]:
            amount, size_bytes, number = rows[place]
            # Both brokers gain by the amount at most, so no smaller one gains enough.
            if 2 * amount < band.gain_min:
                break
            gain = band.gain(donor, receiver, amount)
            if gain < band.gain_min or not self._may_move(number, donor, receiver):
                continue
            if not self._keeps_earlier(goal, number, donor, receiver):
                continue
            value = gain / (size_bytes + _MOVE_OVERHEAD_BYTES)
            if value > best_value:
                best, best_value = place, value
            considered += 1
            if considered == BALANCE_CANDIDATES_MAX:
                break
        return best

    def _may_move(self, number: int, donor: int, receiver: int) -> bool:
        """Whether a move keeps the hard rules, and the receiver has room."""
        replicas = self._now[number]
        if donor not in replicas or receiver in replicas:
            return False
        machine = self._machines.get(receiver)
        if machine is not None and any(
            self._machines.get(broker) == machine for broker in replicas if broker != donor
        ):
            return False
        rest = {self._racks.get(broker, _NO_RACK) for broker in replicas if broker != donor}
        if self._racks[receiver] in rest and self._racks[donor] not in rest:
            return False
        room = self._room[receiver]
        if room is not None and self._parts[number].size_bytes > room:
            self._without_room.add(receiver)
            return False
        return True

    def _keeps_earlier(self, goal: BalanceGoal, number: int, donor: int, receiver: int) -> bool:
        """Whether a move makes no goal before `goal` worse."""
        is_leader = self._now[number][0] == donor
        return all(
            self._bands[earlier].gain(donor, receiver, self._amount(earlier, number, is_leader=is_leader))
            >= 0
            for earlier in BalanceGoal
            if earlier < goal
        )

    def _move(self, number: int, donor: int, receiver: int) -> None:
        replicas = self._now[number]
        is_leader = replicas[0] == donor
        for goal in BalanceGoal:
            self._bands[goal].shift(donor, receiver, self._amount(goal, number, is_leader=is_leader))
        replicas[replicas.index(donor)] = receiver
        room = self._room[receiver]
        if room is not None:
            self._room[receiver] = room - self._parts[number].size_bytes
        self._note(number)

    def _lead(self, number: int, donor: int, receiver: int) -> None:
        for goal in (BalanceGoal.LEADERS, BalanceGoal.BYTES_OUT):
            self._bands[goal].shift(donor, receiver, self._amount(goal, number, is_leader=True))
        replicas = self._now[number]
        replicas.remove(receiver)
        replicas.insert(0, receiver)
        self._note(number)

    def _note(self, number: int) -> None:
        self._touched[number] = None
        self._steps_left -= 1

    # --- racks ---------------------------------------------------------------------------------------------------

    def _missing_racks(self, number: int) -> set[str]:
        """The racks that a partition could be in besides its own, and is not; empty when it is in enough."""
        held = {self._racks.get(broker, _NO_RACK) for broker in self._now[number]}
        others = {self._racks[broker] for broker in self._receivers} - held
        return others if len(held) < min(len(self._now[number]), len(held) + len(others)) else set()

    def count_missing_racks(self) -> int:
        """By how many racks partitions are short, together."""
        return sum(
            min(len(replicas) - len({self._racks.get(one, _NO_RACK) for one in replicas}), len(missing))
            for number, replicas in enumerate(self._now)
            if (missing := self._missing_racks(number))
        )

    def _spread_racks(self) -> bool:
        """Move replicas that share a rack to racks without one. Returns whether there was any."""
        has_moved = False
        if len(set(self._racks.values())) < 2:
            return False
        for number in range(len(self._now)):
            while self._steps_left > 0 and (missing := self._missing_racks(number)):
                pair = self._pick_for_rack(number, missing)
                if pair is None:
                    break
                self._move(number, *pair)
                has_moved = True
        return has_moved

    def _pick_for_rack(self, number: int, missing: set[str]) -> tuple[int, int] | None:
        """The fullest follower in a shared rack, and the emptiest broker in a missing one."""
        replicas = self._now[number]
        shared = Counter(self._racks.get(broker, _NO_RACK) for broker in replicas)
        members = set(self._members)
        donors = [one for one in replicas if one in members and shared[self._racks[one]] > 1]
        receivers = [
            one
            for one in self._receivers
            if self._racks[one] in missing and all(self._may_move(number, donor, one) for donor in donors)
        ]
        if not donors or not receivers:
            return None
        disk, count = self._bands[BalanceGoal.DISK], self._bands[BalanceGoal.REPLICAS]
        return (
            max(donors, key=lambda one: (one != replicas[0], disk.surplus(one), count.surplus(one), -one)),
            min(receivers, key=lambda one: (disk.surplus(one), count.surplus(one), one)),
        )

    # --- the result ----------------------------------------------------------------------------------------------

    def plan(self) -> BalancePlan:
        """All steps together: a partition that moved twice moves once, and one that came back does not."""
        moves: Plan = {}
        bytes_of: dict[TopicPartition, int] = {}
        replica_moves = leader_moves = 0
        for number in self._touched:
            part, replicas = self._parts[number], tuple(self._now[number])
            if replicas == part.replicas:
                continue
            coming = len(set(replicas) - set(part.replicas))
            moves[self._names[number]] = replicas
            bytes_of[self._names[number]] = coming * part.size_bytes
            replica_moves += coming
            leader_moves += replicas[0] != part.replicas[0]
        elections = tuple(self._find_elections(moves))
        unmet = tuple(goal for goal in BalanceGoal if any(self.excess(goal).values()))
        return BalancePlan(
            moves=moves,
            elections=elections,
            replica_moves=replica_moves,
            leader_moves=leader_moves + len(elections),
            bytes_to_move=sum(bytes_of.values()),
            bytes_of=bytes_of,
            before=self._totals((part, (part.led_by, *part.replicas)) for part in self._parts),
            after=self._totals(
                (part, (replicas[0], *replicas))
                for part, replicas in zip(self._parts, self._now, strict=True)
            ),
            unmet=unmet,
            without_room=tuple(sorted(self._without_room)) if unmet else (),
            is_unfinished=self._steps_left <= 0,
        )

    def _find_elections(self, moves: Plan) -> Iterator[TopicPartition]:
        """Where another than the preferred leader leads, if that makes the brokers' leaders uneven."""
        led = Counter(
            moves[where][0] if where in moves else part.led_by
            for where, part in zip(self._names, self._parts, strict=True)
        )
        band = self._bands[BalanceGoal.LEADERS]
        if all(band.lower[broker] <= led[broker] <= band.upper[broker] for broker in self._members):
            return
        for where, part in zip(self._names, self._parts, strict=True):
            first = part.replicas[0]
            if where not in moves and part.led_by != first and first in band.load:
                yield where

    def _totals(self, rows: Iterable[tuple[PartitionLoad, Sequence[int]]]) -> dict[int, BrokerTotals]:
        """What each broker has, from partitions with their leader and their replicas."""
        sums = {broker: [0, 0, 0, 0, 0] for broker in self._members}
        for part, (leader, *replicas) in rows:
            for broker in replicas:
                if broker in sums:
                    sums[broker][0] += 1
                    sums[broker][2] += part.size_bytes
                    sums[broker][3] += part.bytes_in_per_second
            if leader in sums:
                sums[leader][1] += 1
                sums[leader][4] += part.bytes_out_per_second
        return {broker: BrokerTotals(*found) for broker, found in sums.items()}
