"""Produce requests with records in the log that are not yet flushed, or not yet on all in-sync replicas."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from odradek.broker.replication.acknowledgements import Waiters
from odradek.broker.replication.partition import Partition
from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.parts import ProduceParts
from odradek.foundation.errors import KafkaStorageError, RequestError, RequestTimedOut
from odradek.foundation.named_tuple import NamedTuple
from odradek.network.pending import Pending
from odradek.wire.protocol.hot.produce import ProducePartitionResult


class Uncommitted(NamedTuple):
    """A partition's result that counts only once the last record is committed."""

    result: ProducePartitionResult
    partition: Partition
    last_offset: int
    key: str | bytes
    records: memoryview | None


# Makes the frame from the errors, by index in the sequence of `Uncommitted`.
MakeAnswer = Callable[[Mapping[int, Exception]], bytes | None]


async def when_flushed(uncommitted: Sequence[Uncommitted], *, answer: MakeAnswer) -> bytes | None:
    """The answer once every partition's records are flushed, or cannot be."""
    failures: dict[int, Exception] = {}
    for number, one in enumerate(uncommitted):
        try:
            await one.partition.wait_until_flushed(one.last_offset)
        except (KafkaStorageError, RequestError) as error:
            failures[number] = error
    return answer(failures)


def when_held_by_all(
    uncommitted: Sequence[Uncommitted],
    context: RequestContext[ProduceParts],
    *,
    timeout_ms: int,
    answer: MakeAnswer,
) -> bytes | Pending[bytes | None] | None:
    """The answer once all in-sync replicas hold the records, or cannot, or the request's time is up."""
    pending: Pending[bytes | None] = Pending()
    wanted: dict[Waiters, int] = {}
    for one in uncommitted:
        waiters = one.partition.replica.pending_produces
        wanted[waiters] = max(wanted.get(waiters, 0), one.last_offset + 1)

    def take_outcome(outcome: Mapping[Waiters, Exception]) -> None:
        failures = {
            number: outcome[one.partition.replica.pending_produces]
            for number, one in enumerate(uncommitted)
            if one.partition.replica.pending_produces in outcome
        }
        if not pending.done():
            # The caller may be handling another connection's request.
            pending.settle_soon(answer(failures))

    waiting = context.broker.partitions.acknowledgements.wait(
        wanted, timeout_seconds=timeout_ms / 1000, on_done=take_outcome
    )
    if waiting is None:
        full = RequestTimedOut("Too many requests wait for the replicas of this broker; try again.")
        return answer(dict.fromkeys(range(len(uncommitted)), full))
    # The transport cancels it when the connection closes.
    pending.when_cancelled(waiting.cancel)
    return pending
