"""One partition of an internal topic in memory: its life, its state machine, and the only writer of its log.

    | State       | Event                                             | Next state |
    | ----------- | ------------------------------------------------- | ---------- |
    | LOADING     | every record is applied, and all are committed    | ACTIVE     |
    | LOADING     | the log cannot be read                            | FAILED     |
    | FAILED      | a later attempt does so                           | ACTIVE     |
    | every state | this broker stops, or leads the partition no more | CLOSED     |
    | ACTIVE      | a write failed that may count all the same        | CLOSED     |

After the last, another shard loads the log, and serves it once all of it is committed.

State comes from records alone: a request's change is written first, then applied by the code that loads a log.
A gate for each key holds back requests while a change of that key is being written. What the records mean is the
state machine's business: groups have one, and so can transactions (Kafka's `CoordinatorRuntime`, KIP-848).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from enum import Enum
from functools import partial
from typing import Generic, Protocol, TypeVar, cast

from odradek.broker.coordination.timers import SessionTimers, Wakeable
from odradek.broker.coordination.topic_log import EncodedRecord, TopicParts
from odradek.broker.coordination.writer import OnWritten, RecordWriter
from odradek.foundation.error_values import without_trace
from odradek.foundation.errors import (
    CoordinatorNotAvailable,
    CorruptRecord,
    NotCoordinator,
    OdradekError,
    RequestError,
)
from odradek.foundation.limits import COORDINATOR_REQUESTS_WAITING_MAX

logger = logging.getLogger(__name__)

T = TypeVar("T")


class ShardState(Enum):
    LOADING = "loading"
    ACTIVE = "active"
    # Could not be loaded; loading is tried again, and nothing is served or written until then.
    FAILED = "failed"
    CLOSED = "closed"


class StateMachine(Protocol):
    """The meaning of one partition's records."""

    def replay(self, key: bytes, value: bytes | None) -> bool:
        """Apply one record of the log; False for a kind that this broker does not read. Raises CorruptRecord."""
        ...

    def on_loaded(self) -> None:
        """Every record is applied and committed, and requests are served from now on."""
        ...

    def on_load_failed(self) -> None:
        """Forget the state from the records: they will be applied from the first one again."""
        ...

    def on_unloaded(self, error: OdradekError) -> None:
        """Answer every request that waits with `error`, and stop every timer."""
        ...


class TransactionalRecords(Protocol):
    """The meaning of the records of transactions, to a state machine whose topic has such records."""

    def replay_pending(self, producer_id: int, key: bytes, value: bytes | None) -> bool:
        """A record of an open transaction; False for a kind that none may hold. Raises CorruptRecord."""
        ...

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        """A marker of the producer is in the log: its pending records count now, or never."""
        ...


_NOTHING = object()


class DeferredAnswer(Generic[T]):
    """The answer to a request: called once with the result, now or later. No task is made for one that is there."""

    __slots__ = ("_future", "_result")

    def __init__(self) -> None:
        self._result: object = _NOTHING
        self._future: asyncio.Future[T] | None = None

    def __call__(self, result: T) -> None:
        self._result = result
        if self._future is not None and not self._future.done():
            self._future.set_result(result)

    def get(self) -> T | Awaitable[T]:
        """The result if it is there, else something to await."""
        if self._result is not _NOTHING:
            return cast(T, self._result)
        self._future = asyncio.get_running_loop().create_future()
        return self._future


Machine_co = TypeVar("Machine_co", bound=StateMachine, covariant=True)


class Shard(Generic[Machine_co]):
    """One partition. `make_machine` gets the shard, which the state machine writes through."""

    def __init__(
        self,
        partition: int,
        *,
        parts: TopicParts,
        timers: SessionTimers,
        led_since_epoch: int,
        make_machine: Callable[[Shard[Machine_co]], Machine_co],
        on_unknown: Callable[[Shard[Machine_co], OdradekError], None],
    ) -> None:
        self.partition = partition
        self.topic = parts.topic
        self.name = parts.name_of(partition)
        self.led_since_epoch = led_since_epoch
        self.state = ShardState.LOADING
        self.failure: BaseException | None = None  # why it is FAILED
        self.loaded = asyncio.Event()
        self.writer = RecordWriter(parts, partition, on_unknown=partial(on_unknown, self))
        self._gates: dict[str, deque[Callable[[], None]]] = {}
        self._clock = parts.clock
        self._timers = timers
        self.transactional: TransactionalRecords | None = None
        """Set by a state machine whose topic has records of transactions."""
        self.machine = make_machine(self)

    # --- time -----------------------------------------------------------------------------------------------

    def now(self) -> float:
        """The loop's time in seconds; deadlines are on this scale."""
        return asyncio.get_running_loop().time()

    def wall_ms(self) -> int:
        """Milliseconds since 1970."""
        return self._clock.wall_ms()

    def wake(self, timed: Wakeable) -> None:
        """Make sure that `timed` expires at its `wake_at`."""
        self._timers.wake(timed)

    def stop_timer(self, timed: Wakeable) -> None:
        """Let no deadline of `timed` pass until `wake` is called again."""
        self._timers.forget(timed)

    # --- changes --------------------------------------------------------------------------------------------

    def when_free(self, key: str, action: Callable[[], None]) -> None:
        """Call `action` now, or once the change of this key that is being written has taken effect.

        Raises CoordinatorNotAvailable when too many wait already.
        """
        gate = self._gates.get(key)
        if gate is None:
            action()
        elif len(gate) >= COORDINATOR_REQUESTS_WAITING_MAX:
            raise CoordinatorNotAvailable(
                f"too many requests wait for the {self.topic.subject} {key!r}; try again"
            )
        else:
            gate.append(action)

    def when_serving(
        self, key: str, action: Callable[[], None], refuse: Callable[[RequestError], object]
    ) -> None:
        """As `when_free`, for a request: `refuse` gets the error that `action` raises, or NotCoordinator."""

        def act() -> None:
            try:
                self.check_serving()
                action()
            except RequestError as error:
                refuse(without_trace(error))

        self.when_free(key, act)

    def check_serving(self) -> None:
        """For actions that may have waited in `when_free`.

        Raises NotCoordinator when the partition has moved away.
        """
        if self.state is ShardState.CLOSED:
            raise NotCoordinator(self.topic.moved)

    def write(
        self,
        key: str,
        records: Sequence[EncodedRecord],
        on_written: OnWritten,
        *,
        apply: Callable[[], None] | None = None,
    ) -> None:
        """Write a change of what `key` names; requests for it wait until the change has taken effect.

        Once written the records are replayed, or `apply` is called instead if it is given; then `on_written` is
        called. The caller is within `when_free`.
        """
        assert key not in self._gates, f"two changes of {key!r} at once"
        self._gates[key] = deque()

        def take_effect(error: OdradekError | None) -> None:
            try:
                if error is None and apply is not None:
                    apply()
                elif error is None:
                    for record_key, value in records:
                        self.replay(record_key, value)
                on_written(error)
            finally:
                self._open_gate(key)

        self.writer.submit(records, take_effect)

    def prepare(
        self,
        key: str,
        work: asyncio.Future[T],
        then: Callable[[T], None],
        refuse: Callable[[RequestError], object],
    ) -> None:
        """Call `then` with the result of `work`, a change of what `key` names that a thread plans.

        Requests for it wait until then, and until the change is written if `then` writes one. `refuse` gets the error
        of either, or NotCoordinator. The caller is within `when_free`.
        """
        assert key not in self._gates, f"two changes of {key!r} at once"
        gate = self._gates[key] = deque()

        def act() -> None:
            try:
                self.check_serving()
                then(work.result())
            except RequestError as error:
                refuse(without_trace(error))
            except Exception:
                logger.exception("a change of the %s %r could not be planned", self.topic.subject, key)
                refuse(CoordinatorNotAvailable(f"the {self.topic.subject} {key!r} cannot be changed now"))

        def resume_plan(_: asyncio.Future[T]) -> None:
            gate.appendleft(act)
            self._open_gate(key)

        work.add_done_callback(resume_plan)

    def _open_gate(self, key: str) -> None:
        """Run the waiting actions in their order, until one of them closes the gate again."""
        waiting = self._gates.pop(key, None)
        while waiting:
            action = waiting.popleft()
            try:
                action()
            except Exception:
                logger.exception("a request that waited for the %s %r failed", self.topic.subject, key)
            if key in self._gates:
                self._gates[key].extendleft(reversed(waiting))
                return

    # --- records --------------------------------------------------------------------------------------------

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Apply one record of the log. One that cannot be read is logged, and the cleaner keeps it as it is."""
        try:
            self.machine.replay(key, value)
        except CorruptRecord as error:
            logger.error("a record of %s, cannot be read and is kept as it is: %s", self.name, error)

    def replay_pending(self, producer_id: int, key: bytes, value: bytes | None) -> None:
        """Apply one record of an open transaction. One that cannot be read, or may not be there, is logged alone."""
        try:
            is_read = self.transactional is not None and self.transactional.replay_pending(
                producer_id, key, value
            )
        except CorruptRecord as error:
            logger.error("a record of a transaction in %s, cannot be read: %s", self.name, error)
            return
        if not is_read:
            logger.error(
                "%s, has a record of producer %d's transaction that it cannot have; it is passed over",
                *(self.name, producer_id),
            )

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        """Apply a marker of the log."""
        if self.transactional is not None:
            self.transactional.end_transaction(producer_id, is_commit=is_commit)

    # --- life -----------------------------------------------------------------------------------------------

    def activate(self) -> None:
        """Serve requests: all records are applied and committed. A shard that is closed by now stays so."""
        if self.state is ShardState.CLOSED:
            return
        self.state = ShardState.ACTIVE
        self.failure = None
        self.machine.on_loaded()
        self.loaded.set()

    @property
    def is_to_be_loaded(self) -> bool:
        return self.state in (ShardState.LOADING, ShardState.FAILED)

    def fail(self, error: BaseException) -> None:
        """Forget the state of a failed load, and serve no request until a later load succeeds."""
        if self.state is ShardState.CLOSED:
            return
        self.machine.on_load_failed()
        self.state = ShardState.FAILED
        self.failure = error

    def close(self, error: OdradekError) -> None:
        """End the shard: this broker stops, or no longer leads the partition."""
        self.state = ShardState.CLOSED
        self.machine.on_unloaded(error)
        self.writer.close(error)
        self.loaded.set()
