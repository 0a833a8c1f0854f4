"""Random schedules over a `ReplicaCluster`, and what always has to hold.

- What was acknowledged with acks=all is in the log of every in-sync replica, at its offset, with its bytes (I1).
- Below the high watermark an offset has one value, for ever, on every replica (I2).
- A leader's high watermark does not go back within its epoch (I5). Every member of the controller's in-sync set has
  what is below it (I7).
- No fetch session overlooks a partition that has something new for its follower.

Power is lost only where another live member of the in-sync set remains: no log survives the loss of all its copies.
"""

from __future__ import annotations

import asyncio

from odradek.foundation.errors import OdradekError
from tests.support.replicas import ReplicaCluster, ReplicaNode
from tests.support.session_changes import wrong_changes

STEPS = (
    *("produce",) * 6,
    *("wait",) * 4,
    *(
        "disconnect",
        "disconnect",
        "heal",
        "deafen",
        "elect",
        "elect",
        "kill",
        "power",
        "stop",
        "start",
        "start",
    ),
)
GIVE_UP_SECONDS = 120.0


class InvariantBroken(AssertionError):
    """What must hold does not."""


class ReplicaChaos:
    """One run of one seed."""

    def __init__(self, cluster: ReplicaCluster) -> None:
        self.cluster = cluster
        self.rng = cluster.rng
        self.acknowledged: dict[int, bytes] = {}
        self.seen: dict[int, bytes] = {}
        self.high_watermarks: dict[tuple[int, int, int], int] = {}
        self.history: list[str] = []
        self._next_value = 0
        self._producing: set[asyncio.Task[None]] = set()

    async def run(self, steps: int) -> None:
        """Random steps, then peace, then the last look. Raises InvariantBroken."""
        for _ in range(steps):
            await self._step(self.rng.choice(STEPS))
            self.look()
        await self._make_peace()
        self.look()
        self._check_acknowledged()

    async def _step(self, step: str) -> None:
        cluster, rng = self.cluster, self.rng
        live = sorted(cluster.live)
        broker = rng.choice(list(cluster.broker_ids))
        self.history.append(f"{step} {broker} {cluster.states[0]}")
        if step == "produce":
            task = asyncio.create_task(self._produce(rng.choice([-1, -1, -1, 1])))
            self._producing.add(task)
            task.add_done_callback(self._producing.discard)
            await asyncio.sleep(rng.uniform(0, 0.01))
        elif step == "wait":
            await asyncio.sleep(rng.choice([0.005, 0.05, 0.5, 3.0]))
        elif step == "disconnect":
            cluster.disconnect(broker, rng.choice([other for other in cluster.broker_ids if other != broker]))
        elif step == "deafen":
            cluster.is_controller_reachable = False
        elif step == "heal":
            cluster.heal()
        elif step == "elect":
            fit = [one for one in cluster.states[0].isr if one in live]
            if fit:
                cluster.elect(rng.choice(fit))
        elif step in ("kill", "power", "stop") and broker in live and len(live) > 1:
            others = [one for one in cluster.states[0].isr if one != broker and one in live]
            if step == "stop":
                await cluster.stop_node(broker)
            else:
                await cluster.kill_node(broker, power_loss=step == "power" and bool(others))
        elif step == "start" and broker not in live:
            cluster.start_node(broker)

    async def _produce(self, acks: int) -> None:
        leader = self.cluster.states[0].leader
        if leader < 0:
            return
        self._next_value += 1
        value = b"value %d " % self._next_value + b"." * self.rng.choice([0, 0, 200])
        try:
            answer = await self.cluster.produce(
                leader, value, acks=acks, timeout_ms=self.rng.choice([100, 5000])
            )
        except (OSError, OdradekError):
            return
        if answer.error_code == 0 and acks == -1:
            before = self.acknowledged.setdefault(answer.base_offset, value)
            self._require(
                before == value, f"offset {answer.base_offset} was given to {before!r} and {value!r}"
            )

    async def _make_peace(self) -> None:
        cluster = self.cluster
        cluster.heal()
        for broker_id in cluster.broker_ids:
            if broker_id not in cluster.live:
                cluster.start_node(broker_id)
        replicas = set(cluster.states[0].replicas)

        def is_whole() -> bool:
            state = cluster.states[0]
            if set(state.isr) != replicas:
                return False
            ends = {cluster.nodes[one].partition().log.log_end_offset for one in replicas}
            return ends == {cluster.leader().partition().high_watermark}

        deadline = asyncio.get_running_loop().time() + GIVE_UP_SECONDS
        while not is_whole() or self._producing:
            self._require(asyncio.get_running_loop().time() < deadline, f"no peace: {self.cluster.states[0]}")
            await asyncio.sleep(0.1)

    # --- what has to hold --------------------------------------------------------------------------------------------

    def look(self) -> None:
        """Look at every live replica as it is now."""
        for node in self.cluster.nodes.values():
            if node.is_live:
                self._look_at(node)

    def _look_at(self, node: ReplicaNode) -> None:
        wrong = wrong_changes(node.parts.fetch)
        self._require(not wrong, f"broker {node.id} overlooks what followers ask for: {wrong}")
        partition = node.partition()
        values = node.values()
        for offset, value in values.items():
            if offset < partition.high_watermark:
                before = self.seen.setdefault(offset, value)
                self._require(
                    before == value,
                    f"broker {node.id} shows {value!r} at {offset}, where {before!r} was shown",
                )
        if partition.is_leader:
            key = (node.id, node.epoch, partition.leader_epoch)
            before_mark = self.high_watermarks.get(key, 0)
            self._require(
                partition.high_watermark >= before_mark,
                f"the high watermark went back from {before_mark} to {partition.high_watermark}",
            )
            self.high_watermarks[key] = partition.high_watermark

    def _check_acknowledged(self) -> None:
        for broker_id in self.cluster.states[0].isr:
            values = self.cluster.nodes[broker_id].values()
            for offset, value in {**self.seen, **self.acknowledged}.items():
                self._require(
                    values.get(offset) == value,
                    f"{value!r} was acknowledged or shown at {offset}; broker {broker_id} has {values.get(offset)!r}",
                )

    def _require(self, holds: bool, what: str) -> None:
        if not holds:
            raise InvariantBroken("\n".join([what, *self.history]))
