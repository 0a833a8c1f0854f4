"""I4 and I8 of transactions: what a round's transactional clients did, by the checks of `tests.histories`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tests.chaos.anomalies import Anomaly
from tests.chaos.history import CommittedRead, Event, TransactionReported
from tests.chaos.transactional_clients import FINAL
from tests.histories.transactions import Attempt, Key, Outcome, Poll, check_final, check_polls


def check_transactions(events: Sequence[Event]) -> Iterator[Anomaly]:
    """Nothing where no final reading is in the history: the round says so itself."""
    attempts = _attempts(events)
    polls: list[Poll] = []
    logs: dict[Key, list[tuple[int, bytes]]] = {}
    for event in events:
        if isinstance(event, CommittedRead):
            key, value = (event.topic, event.partition), event.value.encode()
            if event.reader == FINAL:
                logs.setdefault(key, []).append((event.offset, value))
            else:
                polls.append(Poll(event.at, event.reader, key, event.offset, value))
    if not logs:
        return
    for breach in (*check_final(attempts, logs), *check_polls(attempts, logs, polls)):
        yield Anomaly(invariant=breach.invariant, name=breach.name, what=breach.what)


def _attempts(events: Sequence[Event]) -> list[Attempt]:
    """A transaction without a request for its commit cannot be committed."""
    found: dict[str, Attempt] = {}
    for event in events:
        if not isinstance(event, TransactionReported):
            continue
        attempt = found.setdefault(event.transaction, Attempt(event.transaction, Outcome.ABORTED))
        if event.what == "write":
            attempt.writes.append(((event.topic, event.partition), event.value.encode()))
        elif event.what == "commit asked":
            attempt.commit_asked_at = event.at
            attempt.outcome = Outcome.UNKNOWN
        else:
            attempt.outcome = Outcome(event.what)
    return list(found.values())
