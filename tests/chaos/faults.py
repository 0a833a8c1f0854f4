"""Does what a schedule says to a world, and undoes it: `begin` gives back what ends the fault.

Faults may overlap, also on one process, so each looks at the state when it begins. Undoing a fault that something else
has already undone does nothing. `heal` ends them all and brings everything up again.
"""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Sequence
from itertools import product
from typing import Final

from odradek.metadata.image import paths
from tests.chaos.deletions import Deletions
from tests.chaos.groups import Groups
from tests.chaos.history import HistoryFile, Probed, ProcessEnded, now
from tests.chaos.in_force import FaultsInForce, Undo
from tests.chaos.moves import Moves
from tests.chaos.network import CLIENTS
from tests.chaos.schedule import Kind, Planned
from tests.chaos.world import BROKERS, CONTROLLERS, ZOOKEEPER, ChaosCluster, broker, controller

_READY_SECONDS_MAX: Final = 30.0
_FULL_DISK: Final = "its disk is full"
_EXCUSED_SECONDS: Final = 30.0  # a paused or busy process learns late of what its disk refused


class Faults:
    """All faults of one round; `tick` often, `heal` at the end."""

    def __init__(
        self,
        world: ChaosCluster,
        groups: Groups,
        moves: Moves,
        deletions: Deletions,
        history: HistoryFile,
        *,
        topic: str,
        partitions: int,
    ) -> None:
        self._world = world
        self._groups = groups
        self._moves = moves
        self._deletions = deletions
        self._topic = topic
        self._partitions = partitions
        self._history = history
        self._in_force = FaultsInForce(history)
        self._threads: list[threading.Thread] = []
        self.begun = 0

    def begin(self, planned: Planned) -> None:
        what, undo = self._do(planned)
        self.begun += 1
        self._in_force.add(planned.number, what, undo, lasts_seconds=planned.lasts_seconds)

    def tick(self) -> None:
        """End what is over."""
        self._in_force.end_due()

    def heal(self) -> None:
        """End all faults; every process runs, or is about to."""
        self._in_force.end_all()
        for thread in self._threads:
            thread.join(5 * _READY_SECONDS_MAX)
            assert not thread.is_alive(), f"{thread.name} does not end"
        self._world.start_zookeeper()
        for process in self._world.processes.values():
            process.start()

    # --- each kind -----------------------------------------------------------------------------------------------

    def _do(self, planned: Planned) -> tuple[str, Undo]:
        world, choice = self._world, planned.choice
        some = BROKERS[choice % len(BROKERS)]
        match planned.kind:
            case Kind.KILL_BROKER:
                return self._kill([broker(some)])
            case Kind.KILL_LEADER:
                return self._kill([broker(self._leader(choice))])
            case Kind.KILL_ALL_BROKERS:
                return self._kill([broker(number) for number in BROKERS])
            case Kind.KILL_CONTROLLER:
                return self._kill([self._active(choice)])
            case Kind.PAUSE_BROKER:
                return self._world.pause(broker(some))
            case Kind.PAUSE_LEADER:
                return self._world.pause(broker(self._leader(choice)))
            case Kind.PAUSE_CONTROLLER:
                return self._world.pause(self._active(choice))
            case Kind.RESTART_BROKER:
                return self._restart_in_order([some])
            case Kind.RESTART_ALL:
                return self._restart_in_order(BROKERS)
            case Kind.RESTART_ZOOKEEPER:
                world.kill_zookeeper()
                return "ZooKeeper is killed", world.start_zookeeper
            case Kind.PAUSE_ZOOKEEPER:
                return self._world.pause_zookeeper()
            case Kind.EXPIRE_LEADER:
                return self._expire(paths.broker(self._leader(choice)))
            case Kind.EXPIRE_CONTROLLER:
                return self._expire(paths.CONTROLLER)
            case Kind.FILL_DISK:
                return self._fill_disk(some)
            case Kind.MOVE_PARTITION:
                return self._moves.move(choice)
            case Kind.WIPE_REPLICA:
                return self._wipe(some)
            case Kind.CHURN_GROUP:
                return self._groups.churn(choice), _nothing
            case Kind.PAUSE_MEMBER:
                return self._groups.pause(choice)
            case _:
                return self._cut(planned.kind, some, choice)

    def _leader(self, choice: int) -> int:
        """The leader of one of the partitions, or any broker while none answers."""
        leader = self._world.leader_of(self._topic, choice % self._partitions)
        return leader if leader is not None else BROKERS[choice % len(BROKERS)]

    def _active(self, choice: int) -> str:
        return self._world.active_controller() or controller(CONTROLLERS[choice % len(CONTROLLERS)])

    def _kill(self, names: Sequence[str]) -> tuple[str, Undo]:
        for name in names:
            self._world.processes[name].kill()

        def undo() -> None:
            for name in names:
                self._world.processes[name].start()

        return f"kill -9 of {', '.join(names)}", undo

    def _wipe(self, number: int) -> tuple[str, Undo]:
        what, undo = self._kill([broker(number)])
        return f"{what}: {self._deletions.wipe(number)}", undo

    def _expire(self, path: str) -> tuple[str, Undo]:
        has_ended = self._world.expire(path)
        return f"the session of {path} {'ends' if has_ended else 'was to end, and there is none'}", _nothing

    def _fill_disk(self, number: int) -> tuple[str, Undo]:
        process = self._world.processes[broker(number)]
        process.excuse, process.excused_until = _FULL_DISK, math.inf
        self._world.fill_disk(number)

        def undo() -> None:
            self._world.free_disk(number)
            process.excused_until = time.monotonic() + _EXCUSED_SECONDS

        return f"the disk of {broker(number)} is full", undo

    def _restart_in_order(self, numbers: Sequence[int]) -> tuple[str, Undo]:
        def restart() -> None:
            for number in numbers:
                process = self._world.processes[broker(number)]
                begun_at = now()
                try:
                    code = process.stop()
                except AssertionError as error:
                    self._history.add(
                        Probed(
                            at=now(), begun_at=begun_at, what=f"{process.name} is stopped", error=str(error)
                        )
                    )
                else:
                    # Killed by another fault, or stopped before it handled the signal.
                    if code not in (None, 0, -signal.SIGKILL, -signal.SIGTERM):
                        self._history.add(
                            ProcessEnded(
                                at=now(),
                                process=process.name,
                                exit_code=code or 0,
                                said=process.said()[-600:],
                                excuse=process.excuse if time.monotonic() < process.excused_until else "",
                            )
                        )
                process.start()
                process.is_ready.wait(_READY_SECONDS_MAX)

        thread = threading.Thread(target=restart, name="restarts in order", daemon=True)
        thread.start()
        self._threads.append(thread)
        return f"{', '.join(map(broker, numbers))} restarted in order", _nothing

    def _cut(self, kind: Kind, some: int, choice: int) -> tuple[str, Undo]:
        other = [number for number in BROKERS if number != some][choice // len(BROKERS) % 2]
        brokers = {broker(number) for number in BROKERS}
        controllers = {controller(number) for number in CONTROLLERS}
        match kind:
            case Kind.CUT_BROKERS:
                return self._cut_between({broker(some)}, {broker(other)})
            case Kind.CUT_ONE_WAY:
                return self._cut_ways([(broker(some), broker(other))])
            case Kind.CUT_LEADER_FROM_BROKERS:
                leader = broker(self._leader(choice))
                return self._cut_between({leader}, brokers - {leader})
            case Kind.CUT_FROM_ALL:
                one = broker(some)
                return self._cut_between({one}, (brokers | controllers | {ZOOKEEPER, CLIENTS}) - {one})
            case Kind.CUT_FROM_ZOOKEEPER:
                return self._cut_between({broker(self._leader(choice))}, {ZOOKEEPER})
            case Kind.CUT_FROM_CONTROLLERS:
                return self._cut_between({broker(some)}, controllers)
            case Kind.CUT_CONTROLLER:
                return self._cut_between({self._active(choice)}, {ZOOKEEPER})
            case Kind.CUT_CLIENTS:
                return self._cut_between({broker(some)}, {CLIENTS})
        raise AssertionError(f"no fault is implemented for {kind}")

    def _cut_between(self, these: set[str], those: set[str]) -> tuple[str, Undo]:
        return self._cut_ways(
            [*product(sorted(these), sorted(those)), *product(sorted(those), sorted(these))]
        )

    def _cut_ways(self, ways: Sequence[tuple[str, str]]) -> tuple[str, Undo]:
        for source, target in ways:
            self._world.network.cut(source, target)

        def undo() -> None:
            for source, target in ways:
                self._world.network.mend(source, target)

        pairs = {" and ".join(sorted(way)) for way in ways} if len(ways) > 1 else {" to ".join(ways[0])}
        return f"nothing goes between {'; '.join(sorted(pairs))}", undo


def _nothing() -> None:
    """What ends by itself."""
