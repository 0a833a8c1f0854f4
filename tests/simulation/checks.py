"""What has to hold, checked while a simulation runs and at its end; named as in the list of invariants.

While it runs:

- I5: nothing above the high watermark is acknowledged or read, and it never goes back within an epoch.
- I6: there is one leader for each epoch.
- I7: the in-sync set is part of the replicas, and each member has what is committed.
- I13: while the registry is silent, a leader does not answer clients for a partition that another broker leads. It may
  be late by as long as a confirmation counts.
- I2, of what brokers show.
- A fetch session overlooks no partition that has something new for its follower.

At the end, when all logs are equal: I1, I2, I3, and I4 of all answers to clients.
"""

from __future__ import annotations

import asyncio
from typing import Any

from odradek.broker.replication.partition import Partition
from odradek.foundation.errors import KafkaStorageError
from odradek.wire.records.batch import BatchView
from odradek.wire.records.record import records
from tests.simulation.cluster import BROKERS, SimulatedCluster
from tests.simulation.workload import WEAK, Workload
from tests.support.logs import stored_batches
from tests.support.session_changes import wrong_changes
from tests.support.whole_cluster import ClusterBroker


class Checker:
    """Watches one run. Raises InvariantBroken; `look` is to be called often."""

    def __init__(self, cluster: SimulatedCluster, workload: Workload) -> None:
        self._cluster = cluster
        self._workload = workload
        self._history = cluster.history
        self._require = cluster.history.require
        self._leaders: dict[tuple[int, int], int] = {}
        self._shown: dict[tuple[int, int], bytes] = {}
        self._looked: dict[tuple[int, int], int] = {}
        self._marks: dict[tuple[int, int, int], int] = {}
        # By partition: the epochs in which a broker was seen to lead, which broker and since when.
        self._led_since: dict[int, dict[int, tuple[int, float]]] = {}
        self._first_failure: AssertionError | None = None
        cluster.on_state = self._state_written
        workload.on_acknowledged = self._acknowledged  # type: ignore[method-assign]
        workload.on_read = self._read  # type: ignore[method-assign]

    # --- as it happens -------------------------------------------------------------------------------------------

    def _remember(self, holds: bool, invariant: str, what: str) -> None:
        """As `require`, for what happens in the product's own tasks: raised by the next `look`."""
        try:
            self._require(holds, invariant, what)
        except AssertionError as failure:
            self._first_failure = self._first_failure or failure

    def _state_written(self, partition: int, state: dict[str, Any]) -> None:
        leader, epoch, in_sync = int(state["leader"]), int(state["leader_epoch"]), list(state["isr"])
        self._remember(
            set(in_sync) <= set(BROKERS) and len(set(in_sync)) == len(in_sync),
            "I7",
            f"the in-sync set {in_sync} of {partition} is no part of its replicas {list(BROKERS)}",
        )
        if leader >= 0:
            self._remember(
                leader in in_sync,
                "I7",
                f"{leader} leads {partition} without being in its in-sync set {in_sync}",
            )
            self._leads(partition, epoch, leader)

    def _leads(self, partition: int, epoch: int, leader: int) -> None:
        known = self._leaders.setdefault((partition, epoch), leader)
        self._remember(
            known == leader, "I6", f"{known} and {leader} both lead partition {partition} in epoch {epoch}"
        )

    def _acknowledged(self, partition: int, offset: int, value: bytes) -> None:
        mark = self._cluster.high_watermark(partition)
        self._remember(
            offset < mark,
            "I1",
            f"{value!r} was acknowledged at {partition}:{offset}; the high watermark is {mark}",
        )

    def _read(self, partition: int, offset: int, value: bytes) -> None:
        mark = self._cluster.high_watermark(partition)
        self._remember(
            offset < mark, "I5", f"{value!r} was read at {partition}:{offset}; the high watermark is {mark}"
        )
        before = self._shown.setdefault((partition, offset), value)
        self._remember(before == value, "I2", f"{partition}:{offset} was {before!r} and is read as {value!r}")

    # --- now and then --------------------------------------------------------------------------------------------

    def look(self) -> None:
        """Look at every live broker as it is now."""
        if self._first_failure is not None:
            raise self._first_failure
        self._workload.raise_failure()
        for start, (broker_id, broker) in enumerate(self._cluster.ever_started):
            if self._cluster.brokers.get(broker_id) is broker:
                wrong = wrong_changes(broker.parts.fetch)
                self._require(
                    not wrong, "sessions", f"broker {broker_id} overlooks what followers ask for: {wrong}"
                )
                for partition in range(self._cluster.partition_count):
                    self._look_at(start, broker_id, broker, partition)
        if self._first_failure is not None:
            raise self._first_failure

    def _look_at(self, start: int, broker_id: int, broker: ClusterBroker, index: int) -> None:
        replica = self._cluster.partition_of(broker, index)
        if replica is None:
            return
        mark = replica.high_watermark
        if replica.is_leader:
            self._leads(index, replica.leader_epoch, broker_id)
            self._look_at_confirmation(index, broker_id, broker, replica)
            key = (start, index, replica.leader_epoch)
            before = self._marks.get(key, 0)
            self._require(
                mark >= before,
                "I5",
                f"broker {broker_id}: high watermark of {index} fell from {before} to {mark}",
            )
            self._marks[key] = mark
        committed = self._cluster.high_watermark(index)
        state = self._cluster.states.get(index)
        if state is not None and broker_id in state["isr"]:
            end = replica.log.log_end_offset
            self._require(
                end >= committed,
                "I7",
                f"broker {broker_id} is in sync for {index} and ends at {end}; the high watermark is {committed}",
            )
        since = self._looked.get((start, index), replica.log.log_start_offset)
        if mark > since:
            try:
                batches = stored_batches(replica.log, from_offset=since)
            except (OSError, KafkaStorageError):
                return  # its disk fails at the moment
            for batch in batches:
                for record in records(batch):
                    if record.offset < mark:
                        self._show(broker_id, index, record.offset, record.value or b"")
            self._looked[start, index] = mark

    def _look_at_confirmation(
        self, index: int, broker_id: int, broker: ClusterBroker, replica: Partition
    ) -> None:
        now = asyncio.get_running_loop().time()
        led_since = self._led_since.setdefault(index, {})
        led_since.setdefault(replica.leader_epoch, (broker_id, now))
        if not broker.control.outage.is_ongoing or not replica.require_leader().is_confirmed:
            return
        for epoch, (other, since) in led_since.items():
            self._require(
                epoch <= replica.leader_epoch
                or other == broker_id
                or now - since <= replica.replica.context.confirmed_seconds_max,
                "I13",
                f"broker {broker_id} takes itself for the leader of {index} in epoch {replica.leader_epoch}; "
                f"broker {other} has led in epoch {epoch} for {now - since:.3f} s",
            )

    def _show(self, broker_id: int, index: int, offset: int, value: bytes) -> None:
        before = self._shown.setdefault((index, offset), value)
        self._require(
            before == value,
            "I2",
            f"broker {broker_id} has {value!r} at {index}:{offset}, which was {before!r}",
        )

    # --- at the end ----------------------------------------------------------------------------------------------

    def is_whole(self) -> bool:
        """Whether every replica is in sync and holds the same offsets, all committed."""
        cluster = self._cluster
        for index in range(cluster.partition_count):
            if set(cluster.states[index]["isr"]) != set(BROKERS):
                return False
            ends = set()
            for broker_id in BROKERS:
                broker = cluster.brokers.get(broker_id)
                replica = None if broker is None else cluster.partition_of(broker, index)
                if replica is None:
                    return False
                ends |= {replica.log.log_end_offset, replica.high_watermark}
            if len(ends) != 1:
                return False
        return True

    def has_read_all(self) -> bool:
        """Whether the reader has reached the end of every partition."""
        read = self._workload.operations.read
        return all(
            len(read.get(index, {})) >= self._cluster.high_watermark(index)
            for index in range(self._cluster.partition_count)
        )

    def finish(self) -> None:
        """When all is quiet: compare the answers to clients with every replica."""
        self.look()
        for index in range(self._cluster.partition_count):
            self._finish(index)

    def _finish(self, index: int) -> None:
        operations = self._workload.operations
        logs: dict[int, bytes] = {}
        batches: list[BatchView] = []
        for broker_id in BROKERS:
            replica = self._cluster.partition_of(self._cluster.brokers[broker_id], index)
            assert replica is not None, "the cluster is whole"
            batches = stored_batches(replica.log)
            logs[broker_id] = b"".join(bytes(batch.bytes_view) for batch in batches)
        self._require(
            len(set(logs.values())) == 1, "I1", f"the replicas of {index} differ: {_lengths(logs)} bytes"
        )
        # So one of them is as good as all.
        values = [(record.offset, record.value or b"") for batch in batches for record in records(batch)]
        found = dict(values)
        for value, offset in operations.acknowledged.get(index, {}).items():
            at = offset if offset >= 0 else next((o for o, v in values if v == value), -1)
            self._require(
                found.get(at) == value,
                "I1",
                f"{value!r} was acknowledged at {index}:{offset}; there is {found.get(at)!r}",
            )
        for (partition, offset), value in self._shown.items():
            self._require(
                partition != index or found.get(offset) == value,
                "I2",
                f"{value!r} was shown at {index}:{offset}; there is {found.get(offset)!r} now",
            )
        self._check_order(index, [value for _, value in values])
        for failure in operations.out_of_range:
            self._require(False, "I1", f"what a reader had read is gone: {failure}")

    def _check_order(self, index: int, values: list[bytes]) -> None:
        # Of those that asked for little only that they sent what is there.
        weak = [value for value in values if value.startswith(WEAK.encode())]
        self._require(
            set(weak) <= set(self._workload.operations.sent[index]),
            "I2",
            f"{index} holds what no producer sent",
        )
        values = [value for value in values if not value.startswith(WEAK.encode())]
        self._require(len(values) == len(set(values)), "I4", f"{index} holds twice {_twice(values)}")
        place = {value: number for number, value in enumerate(self._workload.operations.sent[index])}
        last: dict[bytes, int] = {}
        for value in values:
            producer = value.split(b"-")[0]
            self._require(value in place, "I2", f"{value!r} is in {index} and was never sent")
            self._require(
                last.get(producer, -1) < place[value], "I3", f"{value!r} is in {index} behind a later one"
            )
            last[producer] = place[value]


def _lengths(logs: dict[int, bytes]) -> dict[int, int]:
    return {broker: len(data) for broker, data in logs.items()}


def _twice(values: list[bytes]) -> list[bytes]:
    seen: set[bytes] = set()
    return [value for value in values if value in seen or seen.add(value)]  # type: ignore[func-returns-value]
