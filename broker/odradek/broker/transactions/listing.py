"""Requests that look at transactional ids from outside: ListTransactions and DescribeTransactions (KIP-664)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from typing import Any

from odradek.broker.coordination.runtime import CoordinatorRuntime
from odradek.broker.transactions.metadata import (
    NO_PRODUCER_EPOCH,
    PREPARE_STATES,
    TransactionMetadata,
    TransactionState,
)
from odradek.broker.transactions.state_machine import TransactionalId, TransactionStateMachine
from odradek.foundation.clock import Clock
from odradek.foundation.errors import CoordinatorLoadInProgress, InvalidRegularExpression, InvalidRequest
from odradek.foundation.limits import TOPIC_PATTERN_LENGTH_MAX
from odradek.foundation.named_tuple import NamedTuple
from odradek.foundation.transaction_errors import TransactionalIdNotFound


class ListedTransaction(NamedTuple):
    transactional_id: str
    producer_id: int
    state: str


class TransactionFilter(NamedTuple):
    """Empty filters let all through. `duration_ms` lets those through that are open for longer; -1 is none."""

    states: Set[str] = frozenset()
    unknown_states: Sequence[str] = ()
    """The names in the filter that are no state, each once. Where no other is in it, nothing passes."""
    producer_ids: Set[int] = frozenset()
    duration_ms: int = -1
    pattern: str | None = None


def filter_by(
    *,
    states: Iterable[str] = (),
    producer_ids: Iterable[int] = (),
    duration_ms: int = -1,
    pattern: str | None = None,
) -> TransactionFilter:
    """The filter of a request, which may have hundreds of thousands of names and ids.

    Other threads run in between: a set of all ids, made at once, would hold them up.
    """
    known = {state.title for state in TransactionState}
    wanted: set[str] = set()
    unknown: dict[str, None] = {}
    for name in states:
        if name in known:
            wanted.add(name)
        else:
            unknown[name] = None
    ids: set[int] = set()
    for producer_id in producer_ids:
        ids.add(producer_id)
    return TransactionFilter(wanted, tuple(unknown), ids, duration_ms, pattern)


class TransactionStates:
    """The states of all transactional ids of one coordinator, as far as clients may see them."""

    def __init__(self, runtime: CoordinatorRuntime[TransactionStateMachine], clock: Clock) -> None:
        self._runtime = runtime
        self._clock = clock

    def transactions(self, wanted: TransactionFilter) -> list[ListedTransaction]:
        """The ids coordinated here that pass the filter.

        Raises CoordinatorLoadInProgress while some ids are not known yet, InvalidRegularExpression.
        """
        if self._runtime.is_loading:
            raise CoordinatorLoadInProgress("some transactional ids are still being loaded; try again")
        states, producer_ids = wanted.states, wanted.producer_ids
        if wanted.unknown_states and not states:
            return []
        pattern = _compile_pattern(wanted.pattern)
        now_ms = self._clock.wall_ms()
        rows: list[ListedTransaction] = []
        for found in self._ids():
            metadata = found.metadata
            if (
                not _is_shown(found)
                or (states and metadata.state.title not in states)
                or (producer_ids and metadata.producer_id not in producer_ids)
                or (wanted.duration_ms >= 0 and now_ms - metadata.start_ms <= wanted.duration_ms)
                or (pattern is not None and pattern.fullmatch(found.name) is None)
            ):
                continue
            rows.append(ListedTransaction(found.name, metadata.producer_id, metadata.state.title))
        return rows

    def describe(self, name: str) -> TransactionMetadata:
        """The stored values of an id. Raises TransactionalIdNotFound, InvalidRequest, and what routing raises."""
        if not name:
            raise InvalidRequest("the transactional id must not be empty")
        found = self._runtime.shard(name).machine.ids.get(name)
        if found is None or not _is_shown(found):
            raise TransactionalIdNotFound(f"there is no transactional id {name!r}")
        return found.metadata

    def oldest_open_seconds(self) -> float:
        """The age of the oldest transaction that is not complete; 0 where there is none."""
        open_states = (TransactionState.ONGOING, *PREPARE_STATES)
        starts = [found.metadata.start_ms for found in self._ids() if found.metadata.state in open_states]
        return max(0.0, (self._clock.wall_ms() - min(starts)) / 1000) if starts else 0.0

    def counts(self) -> dict[str, int]:
        """Transactional ids by their state."""
        counts = {state.title: 0 for state in TransactionState if state <= TransactionState.COMPLETE_ABORT}
        for found in self._ids():
            counts[found.metadata.state.title] += 1
        return counts

    def _ids(self) -> Iterator[TransactionalId]:
        return (found for shard in self._runtime.list_loaded_shards() for found in shard.machine.ids.values())


def _is_shown(found: TransactionalId) -> bool:
    """An id is hidden until its first write, and once its removal is being written."""
    return found.pending is not TransactionState.DEAD and found.metadata.producer_epoch != NO_PRODUCER_EPOCH


def _compile_pattern(pattern: str | None) -> Any:
    """The pattern in RE2's syntax, whose time grows with the name alone."""
    if not pattern:
        return None
    if len(pattern) > TOPIC_PATTERN_LENGTH_MAX:
        raise InvalidRegularExpression(
            f"the pattern has {len(pattern)} characters, more than {TOPIC_PATTERN_LENGTH_MAX}"
        )
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        raise InvalidRegularExpression(f"the pattern {pattern!r} is no RE2 expression: {error}") from error
