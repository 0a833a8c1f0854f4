"""One run of a seed: a cluster, clients, faults, peace, and the last look.

    run = simulate(seed)          # raises InvariantBroken, whose text is the history
    run.digest()                  # the same each time

Everything is decided by the seed: how many partitions and producers, which kinds of faults and when, how long messages
take. After the faults all is mended; from then on every request must work within 30 s (I12).
"""

from __future__ import annotations

import asyncio
import logging
import random
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final
from unittest import mock

from tests.simulation.administration import Administrator
from tests.simulation.checks import Checker
from tests.simulation.cluster import SimulatedCluster
from tests.simulation.compactors import Compactors
from tests.simulation.consumer_members import ConsumerMembers
from tests.simulation.deletions import Deletions
from tests.simulation.faults import KINDS, KINDS_OF_COMPACTION, Faults
from tests.simulation.guests import Guests
from tests.simulation.history import History
from tests.simulation.members import Members
from tests.simulation.newcomers import Newcomers
from tests.simulation.queue_members import QueueMembers
from tests.simulation.streams_members import StreamsMembers
from tests.simulation.transactors import Transactors
from tests.simulation.workload import Actor, Workload
from tests.support import loop
from tests.support.field_names import check_field_names

ACTORS: Final = ("weak", "admin", "classic", "consumer", "transactions")
ACTOR_CHANCE: Final = 0.25
COMPACTION: Final = "compaction"
COMPACTION_CHANCE: Final = 0.04
GUESTS: Final = "guests"
DELETIONS: Final = "deletions"
DELETIONS_CHANCE: Final = 0.06
GUESTS_CHANCE: Final = 0.04
QUEUES: Final = "queues"
QUEUES_CHANCE: Final = 0.1
STREAMS: Final = "streams"
STREAMS_CHANCE: Final = 0.1
NEWCOMERS: Final = "newcomers"
NEWCOMERS_CHANCE: Final = 0.06
# Their topics are to be on the three brokers that are always there.
WITHOUT_NEWCOMERS: Final = frozenset(
    ("admin", "transactions", COMPACTION, DELETIONS, GUESTS, QUEUES, STREAMS)
)
_MAKE: Final[dict[str, Callable[[Workload, random.Random], Actor]]] = {
    "admin": Administrator,
    "classic": lambda workload, rng: Members(workload, rng, group_id="classic"),
    "consumer": lambda workload, rng: ConsumerMembers(workload, rng, group_id="consumer"),
    "transactions": Transactors,
}
LOOK_SECONDS: Final = 0.2
WORKS_AGAIN_SECONDS: Final = 30.0
WHOLE_AGAIN_SECONDS: Final = 60.0


def simulate(
    seed: int,
    *,
    faults: int | None = None,
    kinds: tuple[str, ...] = KINDS,
    actors: tuple[str, ...] | None = None,
) -> History:
    """Play a seed. `faults` is how many there are, and `kinds` those that may happen. `actors` run besides two or three
    clients. Without a value, `faults` and `actors` are chosen by the seed.
    """
    history = History(seed)
    with _repeatable(seed):
        loop.run(_play(seed, history, faults=faults, kinds=kinds, actors=actors))
    return history


@contextmanager
def _repeatable(seed: int) -> Iterator[None]:
    """Chance that the product takes from outside is the seed's too; its log lines are of no use here."""
    chance = random.Random(f"ids of {seed}")
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with mock.patch.object(uuid, "uuid4", lambda: uuid.UUID(int=chance.getrandbits(128), version=4)):
            yield
    finally:
        check_field_names()
        logging.disable(before)


async def _play(
    seed: int, history: History, *, faults: int | None, kinds: tuple[str, ...], actors: tuple[str, ...] | None
) -> None:
    rng = random.Random(f"simulation {seed}")
    # Of its own, so that the other seeds stay what they were.
    compaction_rng = random.Random(f"compaction {seed}")
    guests_rng = random.Random(f"guests {seed}")
    deletions_rng = random.Random(f"deletions {seed}")
    newcomers_rng = random.Random(f"newcomers {seed}")
    streams_rng = random.Random(f"streams {seed}")
    queues_rng = random.Random(f"queues {seed}")
    cluster = SimulatedCluster(rng.getrandbits(64), history, partitions=rng.choice([1, 1, 2]))
    if actors is None:
        actors = tuple(actor for actor in ACTORS if rng.random() < ACTOR_CHANCE)
        actors += (COMPACTION,) if compaction_rng.random() < COMPACTION_CHANCE else ()
        actors += (GUESTS,) if guests_rng.random() < GUESTS_CHANCE else ()
        actors += (DELETIONS,) if deletions_rng.random() < DELETIONS_CHANCE else ()
        actors += (QUEUES,) if queues_rng.random() < QUEUES_CHANCE else ()
        actors += (STREAMS,) if streams_rng.random() < STREAMS_CHANCE else ()
        is_open = WITHOUT_NEWCOMERS.isdisjoint(actors)
        actors += (NEWCOMERS,) if is_open and newcomers_rng.random() < NEWCOMERS_CHANCE else ()
    workload = Workload(cluster, rng, producers=rng.choice([1, 2]), has_weak="weak" in actors)
    checker = Checker(cluster, workload)
    count = rng.randint(1, 8) if faults is None else faults
    chosen = tuple(sorted(rng.sample(kinds, min(len(kinds), rng.choice([2, 4, len(kinds)])))))
    if COMPACTION in actors and kinds is KINDS:
        chosen += tuple(kind for kind in KINDS_OF_COMPACTION if compaction_rng.random() < 0.6)
    # They have settings of their own, so they are there before the brokers.
    first: list[Actor] = [Compactors(workload, compaction_rng)] if COMPACTION in actors else []
    first += [Guests(workload, guests_rng)] if GUESTS in actors else []
    first += [QueueMembers(workload, queues_rng)] if QUEUES in actors else []
    await cluster.begin()
    workload.start()
    others: list[Actor] = [*first]
    others += [_MAKE[actor](workload, rng) for actor in actors if actor in _MAKE]
    others += [Deletions(workload, deletions_rng)] if DELETIONS in actors else []
    others += [StreamsMembers(workload, streams_rng, group_id="streams")] if STREAMS in actors else []
    others += [Newcomers(workload, newcomers_rng)] if NEWCOMERS in actors else []
    for one in others:
        one.start()
        workload.others.append(one)
    trouble = asyncio.create_task(Faults(cluster, rng).run(count=count, kinds=chosen))
    await _while_looking(checker, trouble)
    await _while_looking(checker, asyncio.create_task(asyncio.sleep(rng.uniform(1.0, 4.0))))
    history.add("PEACE", "all is mended")
    cluster.make_peace()
    await _while_looking(checker, asyncio.create_task(_works_again(cluster, workload)))
    # One that makes faults of its own goes first: the others are promised peace.
    for one in sorted(others, key=lambda one: not isinstance(one, Deletions)):
        await _while_looking(checker, asyncio.create_task(one.settle()))
    await _while_looking(checker, asyncio.create_task(workload.finish()))
    await _while_looking(checker, asyncio.create_task(_whole_again(cluster, checker, others)))
    await workload.stop()
    for one in others:
        await one.stop()
    for one in others:
        await one.check()
    checker.finish()
    history.add("PEACE", "all holds")


async def _while_looking(checker: Checker, task: asyncio.Task[None]) -> None:
    while not task.done():
        await asyncio.wait([task], timeout=LOOK_SECONDS)
        checker.look()
    await task


async def _works_again(cluster: SimulatedCluster, workload: Workload) -> None:
    """I12: a new client can write to every partition."""
    began = asyncio.get_running_loop().time()
    for failure in await asyncio.gather(
        *(
            workload.probe(partition, seconds_max=WORKS_AGAIN_SECONDS)
            for partition in range(cluster.partition_count)
        )
    ):
        cluster.history.require(failure is None, "I12", str(failure))
    try:
        async with asyncio.timeout_at(began + WORKS_AGAIN_SECONDS):
            await cluster.all_started()
    except TimeoutError:
        cluster.history.require(
            False,
            "I12",
            f"after {WORKS_AGAIN_SECONDS:g} s only {sorted(cluster.brokers)} of the brokers serve",
        )


async def _whole_again(cluster: SimulatedCluster, checker: Checker, others: Sequence[Actor]) -> None:
    deadline = asyncio.get_running_loop().time() + WHOLE_AGAIN_SECONDS
    while not (checker.is_whole() and checker.has_read_all() and all(one.is_settled() for one in others)):
        cluster.history.require(
            asyncio.get_running_loop().time() < deadline,
            "I12",
            f"{WHOLE_AGAIN_SECONDS:g} s after the faults not all replicas are in sync, or not all was read: "
            f"{cluster.states}",
        )
        await asyncio.sleep(0.1)
