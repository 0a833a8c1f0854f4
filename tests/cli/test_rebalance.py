"""`odradek brokers rebalance` on a whole cluster in this process: plan, batches, Ctrl-C, resumption, stop."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from click.testing import CliRunner, Result

from odradek.cli.brokers.moves import read_plan
from odradek.cli.exit_codes import ExitCode
from odradek.cli.main import command_line
from odradek.cli.shared.options import CommandSession
from odradek.client.admin.admin import Admin
from odradek.client.admin.plans import Plan
from odradek.client.admin.reassignments import SIDES
from odradek.client.client import Client
from odradek.client.results import ResourceType
from odradek.foundation.ids import TopicPartition
from tests.support.loop import VirtualTimeLoop
from tests.support.whole_cluster import PORT, WholeCluster

T = TypeVar("T")
ENTRIES = {"replica.fetch.max.bytes": "20000"}
BYTES = 10_000
SLOWLY = ("--throttle", "100")


class ClusterAndShell:
    """Three brokers on virtual time, of which the third came last, and commands that are run between its turns."""

    def __init__(self, runner: asyncio.Runner, monkeypatch: pytest.MonkeyPatch) -> None:
        self._runner = runner
        self._interrupt: Callable[[], bool] | None = None
        self.cluster = runner.run(WholeCluster.start(brokers=2, controllers=1, entries=ENTRIES))
        self.do(self._fill())
        monkeypatch.setattr(CommandSession, "run", lambda _, work: self.ask(work))

    async def _fill(self) -> None:
        assignment = [[1, 2], [2, 1]] * 3
        assert await self.cluster.create_topic("t", assignment=assignment) == 0
        for number, (leader, _) in enumerate(assignment):
            for _ in range(10):
                await self.cluster.produce(leader, "t", number, b"x" * BYTES, acks=-1)
        await self.cluster.start_broker(3)
        await self.cluster.until(lambda: 3 in self.cluster.image(1).brokers)

    def do(self, work: Awaitable[T]) -> T:
        async def wait() -> T:
            return await work

        return self._runner.run(wait())

    def ask(self, work: Callable[[Client], Awaitable[T]]) -> T:
        """The result of work with a client; KeyboardInterrupt if it was interrupted."""

        async def connected() -> T:
            bootstrap = f"{self.cluster.host(1)}:{PORT}"
            network = self.cluster.network.at("admin")
            async with Client(bootstrap, network=network, random=self.cluster.chance) as client:
                task = asyncio.ensure_future(work(client))
                if self._interrupt is not None:
                    await self.cluster.until(self._interrupt)
                    task.cancel()
                return await task

        try:
            return self.do(connected())
        except asyncio.CancelledError:
            raise KeyboardInterrupt from None

    def rebalance(self, *arguments: str, code: int = 0) -> Result:
        done = CliRunner().invoke(command_line, ["brokers", "rebalance", *arguments])
        assert done.exit_code == code, done.output
        return done

    def json(self, *arguments: str) -> Any:
        return json.loads(self.rebalance(*arguments, "--output", "json").stdout)

    def interrupt(self, when: Callable[[], bool], *arguments: str) -> Result:
        """The command with a Ctrl-C."""
        self._interrupt = when
        try:
            return self.rebalance(*arguments, code=ExitCode.INTERRUPTED)
        finally:
            self._interrupt = None

    def moving(self) -> int:
        return sum(bool(one.adding or one.removing) for one in self.cluster.image(1).topics["t"].partitions)

    def counts(self) -> dict[int, int]:
        placed = self.cluster.replicas("t", seen_by=1)
        return {broker: sum(broker in one for one in placed) for broker in (1, 2, 3)}

    def throttles(self) -> list[str]:
        async def find(client: Client) -> list[str]:
            admin = Admin(client)
            entries = await admin.configs.describe(
                ResourceType.TOPIC, "t", keys=[f"{side}.replication.throttled.replicas" for side in SIDES]
            )
            for broker in "123":
                entries += await admin.configs.describe(
                    ResourceType.BROKER, broker, keys=[f"{side}.replication.throttled.rate" for side in SIDES]
                )
            return [entry.name for entry in entries if not entry.is_default]

        return self.ask(find)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[ClusterAndShell]:
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        world = ClusterAndShell(runner, monkeypatch)
        yield world
        runner.run(world.cluster.stop())


def test_a_plan_is_read_and_nothing_moves(world: ClusterAndShell, tmp_path: Path) -> None:
    printed = world.rebalance("--plan").stdout.splitlines()
    assert printed[0].split() == [
        "ID",
        "REPLICAS",
        "WILL",
        "BE",
        "LEADERS",
        "WILL",
        "BE",
        "SIZE",
        "WILL",
        "BE",
    ]
    assert [line.split()[:5] for line in printed[1:4]] == [
        ["1", "6", "4", "3", "2"],
        ["2", "6", "4", "3", "2"],
        ["3", "0", "4", "0", "2"],
    ]
    assert printed[-1].startswith("would move  4 replicas (39")
    assert printed[-1].endswith(" in 1 batch")
    assert world.rebalance("--dry-run").stdout.splitlines() == printed
    found = world.json("--plan")
    assert found["replica_moves"] == 4
    assert 4 * 10 * BYTES < found["bytes_to_move"] < 4 * 11 * BYTES
    assert found["brokers"][0]["before"]["size_bytes"] == 6 * found["bytes_to_move"] // 4
    assert found["brokers"][2]["after"]["bytes_in_per_second"] is None
    assert all(3 in row["replicas"] for row in found["partitions"])
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(found))
    assert len(read_plan(str(path))) == len(found["partitions"])
    assert (world.moving(), world.counts()) == (0, {1: 6, 2: 6, 3: 0})


def test_it_runs_in_batches_and_a_second_time_there_is_nothing_to_do(world: ClusterAndShell) -> None:
    done = world.rebalance("--batch", "3", "--throttle", "10000000")
    assert "batch 1 of 2: 3 partitions" in done.stderr
    assert "batch 2 of 2: " in done.stderr
    assert done.stdout.startswith("moved  4 replicas (")
    assert world.counts() == {1: 4, 2: 4, 3: 4}
    led = world.cluster.leaders("t", seen_by=1)
    assert {led.count(broker) for broker in (1, 2, 3)} == {2}
    assert world.throttles() == []
    assert world.rebalance("--wait").stdout == "nothing has to move\n"
    assert "nothing has to move" in world.rebalance("--plan").stdout


def test_ctrl_c_begins_nothing_more_and_the_same_command_resumes(world: ClusterAndShell) -> None:
    done = world.interrupt(lambda: world.moving() == 1, "--batch", "1", *SLOWLY)
    assert "stopped: 1 partition under way will arrive." in done.stderr
    assert world.moving() == 1
    assert world.throttles()
    # What is under way counts as moved, and what it has yet to bring as there.
    load = world.ask(lambda client: Admin(client).brokers.measure_load())
    (listed,) = (one for one in world.ask(lambda client: Admin(client).brokers.list()) if one.id == 3)
    usable = sum(one.usable_bytes for one in listed.log_directories)
    assert usable - 10 * BYTES < (load.brokers[3].free_bytes or 0) < usable - 7 * BYTES
    assert world.json("--plan")["replica_moves"] == 3
    done = world.rebalance("--throttle", "10000000")
    assert "resuming: 1 partition under way" in done.stderr
    assert (world.moving(), world.counts()) == (0, {1: 4, 2: 4, 3: 4})
    assert world.throttles() == []


def test_stop_takes_back_what_has_not_arrived_and_leaves_no_throttle(world: ClusterAndShell) -> None:
    world.interrupt(lambda: world.moving() == 2, "--batch", "2", *SLOWLY)
    assert world.moving() == 2
    assert world.rebalance("--stop").stdout == "stopped  2 moves cancelled\n"
    assert (world.moving(), world.counts()) == (0, {1: 6, 2: 6, 3: 0})
    assert world.throttles() == []
    assert world.json("--stop") == {"result": "stopped", "moves": 0}


def test_the_moves_of_a_drain_and_of_more_replicas_are_no_rebalance(world: ClusterAndShell) -> None:
    more: Plan = {TopicPartition("t", 0): (1, 2, 3)}
    world.ask(lambda client: Admin(client).brokers.execute(more, bytes_per_second=100))
    assert world.json("--stop")["moves"] == 0
    assert world.moving() == 1
    world.ask(lambda client: Admin(client).reassignments.cancel())
    world.ask(lambda client: Admin(client).brokers.drain(2, bytes_per_second=100))
    assert world.json("--stop")["moves"] == 0
    assert world.moving() == 6


def test_a_broker_without_room_is_named(world: ClusterAndShell) -> None:
    disk = world.cluster.disks[3]
    disk.capacity_bytes = disk.used_bytes + 5 * BYTES
    assert "too little free space for more: broker 3. " in world.rebalance("--plan").stdout
    found = world.json("--plan")
    assert (found["replica_moves"], found["without_room"]) == (0, [3])


def test_a_broker_that_is_named_is_the_only_one_to_be_given_replicas(world: ClusterAndShell) -> None:
    assert all(3 in row["replicas"] for row in world.json("3", "--plan")["partitions"])
    assert world.json("1", "2", "--plan")["replica_moves"] == 0
    assert "not live" in world.rebalance("9", "--plan", code=ExitCode.REFUSED).stderr


@pytest.mark.thorough
def test_bytes_in_and_out_are_measured_between_two_samples(
    world: ClusterAndShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    pause = asyncio.sleep

    async def write_and_read(seconds: float) -> None:
        await pause(seconds)
        if seconds == 50.0:
            for _ in range(10):
                await world.cluster.produce(1, "t", 0, b"x" * BYTES, acks=-1)
            await world.cluster.commit_offset(coordinator, 10)

    coordinator = world.do(world.cluster.coordinator("g", through=1))
    assert world.do(world.cluster.commit_offset(coordinator, 5)) == 0
    monkeypatch.setattr("odradek.client.admin.load_measuring.asyncio.sleep", write_and_read)
    found = world.json("--plan", "--sample-seconds", "50")
    before = {one["id"]: one["before"] for one in found["brokers"]}
    written = 10 * BYTES / 50
    assert before[1]["bytes_in_per_second"] == pytest.approx(written, rel=0.1)
    assert before[2]["bytes_in_per_second"] == pytest.approx(written, rel=0.1)
    # A follower reads it all, and the group half as much.
    assert before[1]["bytes_out_per_second"] == pytest.approx(1.5 * written, rel=0.1)
    assert before[3]["bytes_out_per_second"] < 0.1 * written


@pytest.mark.parametrize("wrong", [("--stop", "--plan"), ("3", "--stop")])
def test_contradictions_are_refused(wrong: tuple[str, ...]) -> None:
    assert CliRunner().invoke(command_line, ["brokers", "rebalance", *wrong]).exit_code == ExitCode.USAGE
