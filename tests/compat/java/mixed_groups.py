"""A ZooKeeper group of two of ours and two of Kafka 1.1.1's: `python -m tests.compat.java.mixed_groups --seed 1`.

The group reads 12 partitions of Kafka's own broker. Members of either kind leave, are killed, and join; partitions are
added; the broker is killed and starts again. The seed chooses the order, and which changes come while records are
written. After each change every record must have reached the group, and every offset must be committed.

A record that reaches two members is an error, but for two cases. What a killed member had not committed is handed out
again. And Kafka's consumers read offsets before they claim: while records are written, they may begin below what the
owner before them then commits. In such a change no record reaches two of ours. Prints a line for each change, and one
line of JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import Final

from kazoo.client import KazooClient

from odradek import Admin, Client
from tests.support.connector_member import Member
from tests.support.first_kafka import FirstKafka, OldConsumer
from tests.support.mixed_group import Writer, make_topic, member_process, owners_of, wait_for

PARTITIONS: Final = 12
PARTITIONS_ADDED: Final = 4
NAME: Final = "mixed"
KINDS: Final = ("ours", "old")
WAIT_SECONDS_MAX: Final = 180.0
BATCHES: Final = 20
TAKEN_MAX: Final = 4


class Proof:
    """One run."""

    def __init__(self, folder: Path, *, records: int, seed: int) -> None:
        self._folder = folder
        self._random = random.Random(seed)
        self._kafka = FirstKafka(folder / "kafka", settings={"auto.create.topics.enable": "true"})
        self._partitions = PARTITIONS
        self._members: dict[str, Member | OldConsumer] = {}
        self._running: dict[str, list[str]] = {kind: [] for kind in KINDS}
        changes = [[f"{how} {kind}", f"join {kind}"] for how in ("leave", "kill") for kind in KINDS]
        changes += [["add partitions"], ["kill broker"]]
        self._random.shuffle(changes)
        self._changes = [change for some in changes for change in some]
        self._records_per_change = records // (len(self._changes) + 1)
        self._repeated: set[str] = set()

    def run(self) -> dict[str, object]:
        """Change, write, compare. Raises AssertionError for a difference."""
        began = time.perf_counter()
        repeated = {"after kills": 0, "after joins and leaves under load": 0}
        try:
            self._kafka.start()
            self._registry = KazooClient(hosts=self._kafka.zookeeper.connect)
            self._registry.start()
            self._writer = Writer(self._kafka, NAME)
            make_topic(self._kafka, NAME, PARTITIONS)
            self._commit_starts(range(PARTITIONS))
            for kind in (*KINDS, *KINDS):
                self._join(kind)
            self._settle()
            self._writer.write(self._records_per_change)
            self._check("start", is_busy=False)
            for change in self._changes:
                is_busy = change != "kill broker" and self._random.random() < 0.5
                since = time.perf_counter()
                self._make(change, is_busy)
                found = self._check(change, is_busy)
                repeated["after kills" if "kill" in change else "after joins and leaves under load"] += found
                load = "under load" if is_busy else "at rest"
                print(f"{change}, {load}: {time.perf_counter() - since:.1f} s, {found} repeated", flush=True)
        finally:
            self._close()
        return {
            "records": self._writer.count,
            "partitions": self._partitions,
            "changes": len(self._changes),
            "repeated": repeated,
            "seconds": round(time.perf_counter() - began),
        }

    def _close(self) -> None:
        for member in self._members.values():
            member.close()  # those that left have ended
        if hasattr(self, "_writer"):
            self._writer.close()
        if hasattr(self, "_registry"):
            self._registry.stop()
            self._registry.close()
        self._kafka.close()

    # --- changes ------------------------------------------------------------------------------------------------------

    def _make(self, change: str, is_busy: bool) -> None:
        """Make a change; half of its records are written beside it or before it, half when the group has settled."""
        half = self._records_per_change // 2
        if not is_busy and change != "kill broker":
            self._apply(change)
            self._settle()
            self._writer.write(2 * half)
            return
        if change == "kill broker":
            self._writer.write(half)  # most of it is still to be read
            self._apply(change)
        else:
            load = threading.Thread(target=self._write_slowly, args=(half,))
            load.start()
            time.sleep(self._random.uniform(0.5, 2.5))
            self._apply(change)
            self._settle()
            load.join()
        self._settle()
        self._writer.write(half)

    def _write_slowly(self, count: int) -> None:
        for _ in range(BATCHES):
            self._writer.write(count // BATCHES)
            time.sleep(0.3)

    def _apply(self, change: str) -> None:
        verb, what = change.split(" ")
        if change == "kill broker":
            self._kafka.kill_broker()
            wait_for(lambda: not self._registry.exists("/brokers/ids/0"), lambda: "its session continues", 60)
            self._kafka.start_broker()
        elif verb == "add":
            self._commit_starts(range(self._partitions, self._partitions + PARTITIONS_ADDED))
            self._partitions += PARTITIONS_ADDED
            asyncio.run(self._grow())
        elif verb == "join":
            self._join(what)
        else:
            name = self._running[what].pop(self._random.randrange(len(self._running[what])))
            member = self._members[name]
            member.stop() if verb == "leave" else member.kill()

    def _commit_starts(self, partitions: range) -> None:
        """Kafka's console program begins at the end where nothing is committed, and leaves out what came before."""
        for partition in partitions:
            self._registry.create(f"/consumers/{NAME}/offsets/{NAME}/{partition}", b"0", makepath=True)

    async def _grow(self) -> None:
        async with Client(self._kafka.bootstrap) as client:
            await Admin(client).topics.create_partitions(NAME, total=self._partitions)

    def _join(self, kind: str) -> None:
        name = f"{kind}-{len(self._members)}"
        if kind == "ours":
            self._members[name] = member_process(self._folder / name, self._kafka, NAME, NAME)
        else:
            self._members[name] = OldConsumer(self._folder / name, self._kafka, group=NAME, topic=NAME)
        self._running[kind].append(name)

    # --- what has to hold ---------------------------------------------------------------------------------------------

    def _settle(self) -> None:
        """Every member that runs has its share, and every partition has an owner."""
        members = sum(map(len, self._running.values()))
        least, more = divmod(self._partitions, members)
        wanted = sorted([least + 1] * more + [least] * (members - more))

        def shares() -> list[int]:
            return sorted(owners_of(self._kafka, NAME, NAME).values())

        wait_for(lambda: shares() == wanted, lambda: (shares(), wanted), WAIT_SECONDS_MAX)

    def _takers(self) -> dict[str, list[str]]:
        takers: dict[str, list[str]] = defaultdict(list)
        for name, member in self._members.items():
            for line in member.lines():
                takers[line].append(name)
        return takers

    def _committed(self) -> int:
        parent = f"/consumers/{NAME}/offsets/{NAME}"
        return sum(
            int(self._registry.get(f"{parent}/{name}")[0]) for name in self._registry.get_children(parent)
        )

    def _check(self, change: str, is_busy: bool) -> int:
        """Every record has come, and is committed. How many came again since the last change."""
        count = self._writer.count
        wait_for(
            lambda: len(self._takers()) >= count,
            lambda: (change, count, len(self._takers())),
            WAIT_SECONDS_MAX,
        )
        wait_for(
            lambda: self._committed() == count, lambda: (change, count, self._committed()), WAIT_SECONDS_MAX
        )
        takers = self._takers()
        assert takers.keys() == {str(number) for number in range(count)}
        repeated = {line: names for line, names in takers.items() if len(names) > 1}
        new = {line: names for line, names in repeated.items() if line not in self._repeated}
        self._repeated = set(repeated)
        if not is_busy:
            assert not new, f"{change}: {new}"
        elif "kill" not in change:
            of_ours = {
                line: names for line, names in new.items() if all(name.startswith("ours") for name in names)
            }
            assert not of_ours, f"{change}: {of_ours}"
        assert all(len(names) <= TAKEN_MAX for names in repeated.values()), repeated
        return len(new)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--records", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mixed-groups-") as folder:
        found = Proof(Path(folder), records=given.records, seed=given.seed).run()
    print(json.dumps({"seed": given.seed, **found}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
