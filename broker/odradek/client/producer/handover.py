"""A transaction that one process writes and another one ends, and a transactional id's epoch without a producer.

Spark writes in many processes and decides in one. A task leaves its transaction open. The driver gets what the
coordinator asks for at its end: the transactional id, and the producer's id and epoch. These keep it apart from every
later producer of that id. Until it is ended, readers of committed records wait, and its timeout runs.
"""

from __future__ import annotations

from dataclasses import dataclass

from odradek.client.client import Client
from odradek.client.producer.batches import NO_IDENTITY, ProducerIdAndEpoch
from odradek.client.producer.transaction_requests import TransactionRequests

__all__ = ["NO_IDENTITY", "PreparedTransaction", "ProducerIdAndEpoch", "end_prepared", "start_epoch"]


@dataclass(frozen=True, slots=True)
class PreparedTransaction:
    """A transaction whose records are all written, and which is open. `is_implicit` is for the protocol's TV2."""

    transactional_id: str
    identity: ProducerIdAndEpoch
    is_implicit: bool


async def end_prepared(client: Client, prepared: PreparedTransaction, *, is_commit: bool) -> None:
    """Commit or abort it; the same call again has the same result until the id has another epoch.

    Raises ProducerFenced where another producer has begun with the id, which aborted it. Raises InvalidTxnState where
    it was ended in the other way, by its timeout for example.
    """
    requests = TransactionRequests(client, prepared.transactional_id, timeout_ms=1)  # no producer is started
    await requests.end(prepared.identity, is_commit=is_commit, is_implicit=prepared.is_implicit)


async def start_epoch(
    client: Client, transactional_id: str, *, timeout_ms: int, identity: ProducerIdAndEpoch = NO_IDENTITY
) -> ProducerIdAndEpoch:
    """A new epoch of a transactional id: what is open is aborted, and earlier producers are refused from then on.

    With `identity` it continues from that one, and raises ProducerFenced where another one has begun since. It waits
    for a transaction that is half ended. Raises InvalidTransactionTimeout where the broker allows less.
    """
    requests = TransactionRequests(client, transactional_id, timeout_ms=timeout_ms)
    return await requests.initialize(identity)
