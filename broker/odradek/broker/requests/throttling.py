"""Holds clients to their quotas: measures requests, answers how long to wait, and mutes connections (KIP-219).

A step of the dispatcher, which it has only while quotas exist. The request that exceeds a quota is served. Its answer
leaves at once with the time to wait in it. The connection is muted for that time, because of clients that do not wait.
Of two exceeded quotas the longer time counts.

    producer_byte_rate   bytes of the request
    consumer_byte_rate   bytes of the answer, which `requests.fetch` asks about: it answers without records instead
    request_percentage   time of the event loop that the handler takes, up to its answer or to its first wait

Requests of brokers are exempt: fetches of followers, and those of `_OF_BROKERS`.

Differences from Kafka: a time to wait has an upper bound. A Fetch that exceeds only its request percentage is answered
with its records. What a handler does after a wait is not measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from time import perf_counter_ns
from typing import Final, cast

from odradek.broker.quotas.keys import CLIENT_KEYS, QuotaKey
from odradek.broker.quotas.meters import Meter, Meters
from odradek.broker.quotas.precedence import QuotaTable
from odradek.broker.quotas.throttle_times import SampledRate
from odradek.broker.requests.context import AnyContext
from odradek.broker.requests.loading import Answer, Handle
from odradek.foundation.clock import Clock, SystemClock
from odradek.foundation.limits import CLIENT_THROTTLE_MS_MAX
from odradek.network.pending import Pending
from odradek.wire.protocol.api import ApiKey
from odradek.wire.protocol.frames import Frame
from odradek.wire.protocol.messages import Message
from odradek.wire.protocol.throttle_times import throttle_time_of, with_throttle_time

Ready = Message | Frame | None

_PRODUCE: Final = int(ApiKey.PRODUCE)
_FETCH: Final = int(ApiKey.FETCH)
# The first version of AddPartitionsToTxn that brokers send each other.
_BATCHED_VERIFICATION: Final = 4
_OF_BROKERS: Final = frozenset(
    (int(ApiKey.WRITE_TXN_MARKERS), int(ApiKey.ALTER_PARTITION), int(ApiKey.ALLOCATE_PRODUCER_IDS))
)
# Their answers hold the time to wait that the controller has found.
_OF_THE_CONTROLLER: Final = frozenset(
    (int(ApiKey.CREATE_TOPICS), int(ApiKey.DELETE_TOPICS), int(ApiKey.CREATE_PARTITIONS))
)
_NANOSECONDS_PER_PERCENT: Final = 10_000_000


class ClientThrottling:
    """The quotas of one broker, and what its clients have used of them."""

    def __init__(self, clock: Clock, *, windows: int, window_seconds: int) -> None:
        self._clock = clock
        self._window_ms = window_seconds * 1000
        self._burst_seconds = (windows - 1) * window_seconds

        def new_rate() -> SampledRate:
            return SampledRate(windows=windows, window_ms=self._window_ms)

        self.produce: Meters[SampledRate] = Meters(new_rate, forget=SampledRate.renew_allowance)
        self.fetch: Meters[SampledRate] = Meters(new_rate)
        self.request: Meters[SampledRate] = Meters(new_rate)
        self._is_exempt = False
        self._has_quotas = False

    def change(self, tables: Mapping[QuotaKey, QuotaTable]) -> None:
        """Apply other quotas from now on."""
        self.produce.change(tables[QuotaKey.PRODUCE])
        self.fetch.change(tables[QuotaKey.FETCH])
        self.request.change(tables[QuotaKey.REQUEST])
        self._has_quotas = any(tables[key] for key in CLIENT_KEYS)

    @property
    def is_on(self) -> bool:
        """Whether there is any quota of users or client ids."""
        return self._has_quotas

    def now_ms(self) -> int:
        return int(self._clock.monotonic_seconds() * 1000)

    # --- the step ----------------------------------------------------------------------------------------------------

    def wrap(self, api_key: int, handle: Handle) -> Handle:
        """The handler with what the quotas of now ask of its API: often it is the handler itself."""
        if self.request.is_on:
            return lambda request, context: self._measure_time(handle, request, context)
        if api_key == _PRODUCE and self.produce.is_on:
            return self._produce(handle)
        if api_key in _OF_THE_CONTROLLER:
            return lambda request, context: self._then(handle(request, context), context, 0, 0)
        return handle

    def _produce(self, handle: Handle) -> Handle:
        """Produce while there are quotas of bytes alone. Each look-up here is a part of a percent of a request's cost.

        So a connection remembers what its client may use, until the limit is near or a quota changes. The context's
        fields are read by index, which takes a third of the time of a named tuple's attribute.
        """
        count = self._count_produced
        monotonic_seconds = self._clock.monotonic_seconds
        # The dispatcher has read the same clock when the request arrived.
        is_read = type(self._clock) is SystemClock

        def produce(request: memoryview, context: AnyContext) -> Answer:
            answer = handle(request, context)
            connection = context[1]
            at = context[3] if is_read else monotonic_seconds()
            allowance = connection.produce_allowance
            if allowance is not None and connection.produce_client_id == connection.client_id:
                spare = allowance.spare - len(request)
                if spare >= 0 and at < allowance.until:
                    allowance.spare = spare
                    allowance.spent_at = at
                    return answer
            return count(answer, len(request), context, int(at * 1000))

        return cast(Handle, produce)

    def _count_produced(self, answer: Answer, size: int, context: AnyContext, now_ms: int) -> Answer:
        """Count a Produce in its client's meter, and let the connection know what the client may use from now on."""
        connection, client_id = context.connection, context.header.client_id
        meter = self.produce.find(context.principal, client_id)
        connection.produce_client_id = client_id
        if meter is None:
            connection.produce_allowance = None
            return answer
        connection.produce_allowance = meter.usage.allowance
        throttle_ms = meter.usage.add(size, meter.limit, now_ms)
        return answer if not throttle_ms else self._late(answer, context, meter, throttle_ms)

    def _late(
        self, answer: Answer, context: AnyContext, meter: Meter[SampledRate], throttle_ms: int
    ) -> Answer:
        if type(answer) is Pending:
            waiting = cast("Pending[Ready]", answer)
            return waiting.then(lambda ready: self._throttle_answer(ready, context, meter, throttle_ms))
        return self._throttle_answer(cast(Ready, answer), context, meter, throttle_ms)

    def _measure_time(self, handle: Handle, request: object, context: AnyContext) -> Answer:
        """A request while there are quotas of time."""
        header = context.header
        api_key = header.api_key
        if api_key in _OF_BROKERS or (
            api_key == ApiKey.ADD_PARTITIONS_TO_TXN and header.api_version >= _BATCHED_VERIFICATION
        ):
            return handle(request, context)
        size = len(cast(memoryview, request)) if api_key == _PRODUCE else 0
        self._is_exempt = False
        started_ns = perf_counter_ns()
        try:
            answer = handle(request, context)
        except Exception:
            self._measure(None, context, size, perf_counter_ns() - started_ns)
            raise
        if self._is_exempt:
            return answer
        return self._then(answer, context, size, perf_counter_ns() - started_ns)

    def _then(self, answer: Answer, context: AnyContext, size: int, used_ns: int) -> Answer:
        if type(answer) is Pending:
            waiting = cast("Pending[Ready]", answer)
            return waiting.then(lambda ready: self._measure(ready, context, size, used_ns))
        return self._measure(cast(Ready, answer), context, size, used_ns)

    def _measure(self, answer: Ready, context: AnyContext, size: int, used_ns: int) -> Ready:
        """Record what the request has used. Returns the answer with its time to wait."""
        header = context.header
        now_ms = self.now_ms()
        throttle_ms = 0
        exceeded: Meter[SampledRate] | None = None
        if size:
            meter = self.produce.find(context.principal, header.client_id)
            if meter is not None:
                throttle_ms = meter.usage.add(size, meter.limit, now_ms)
                exceeded = meter
        # As in Kafka, a Produce without an answer (acks=0) counts by its bytes alone.
        if used_ns and not (size and answer is None):
            meter = self.request.find(context.principal, header.client_id)
            if meter is not None:
                excess_ms = meter.usage.add(used_ns / _NANOSECONDS_PER_PERCENT, meter.limit, now_ms)
                excess_ms = min(excess_ms, self._window_ms)
                if excess_ms > throttle_ms:
                    throttle_ms, exceeded = excess_ms, meter
        if header.api_key in _OF_THE_CONTROLLER:
            found_ms = throttle_time_of(header.api_key, header.api_version, answer)
            if found_ms > throttle_ms:
                context.connection.mute(min(found_ms, CLIENT_THROTTLE_MS_MAX), lambda: found_ms)
                return answer
        if not throttle_ms or exceeded is None:
            return answer
        return self._throttle_answer(answer, context, exceeded, throttle_ms)

    def _throttle_answer(
        self, answer: Ready, context: AnyContext, meter: Meter[SampledRate], throttle_ms: int
    ) -> Ready:
        """The answer with the time to wait, for which the connection is muted."""
        throttle_ms = min(throttle_ms, CLIENT_THROTTLE_MS_MAX)
        self._throttle(meter, context, throttle_ms)
        return with_throttle_time(context.header.api_key, context.header.api_version, answer, throttle_ms)

    def _throttle(self, meter: Meter[SampledRate], context: AnyContext, throttle_ms: int) -> None:
        meter.note(throttle_ms)
        context.connection.mute(throttle_ms, lambda: self._still_due_ms(meter))

    def _still_due_ms(self, meter: Meter[SampledRate]) -> int:
        """The time to wait, seen from now: less once the quota was raised, none once it was removed."""
        return meter.excess_ms(self.now_ms()) if meter.is_in_force else 0

    # --- what `broker.requests.fetch.handler` asks
    # ----------------------------------------------------------------------------------

    def exempt(self) -> None:
        """The request that is being handled comes from a follower."""
        self._is_exempt = True

    def fetch_bytes_max(self, context: AnyContext) -> int | None:
        """The most bytes of an answer that the client's quota lets through; None without a quota."""
        meter = self.fetch.find(context.principal, context.header.client_id)
        return None if meter is None else max(1, int(meter.limit * self._burst_seconds))

    def fetch_throttle(self, context: AnyContext, size: int) -> tuple[int, bool]:
        """(how long a client must wait, whether an answer of this size is withheld). What is sent is counted.

        An answer that is too large for the quota, and alone in its windows, is sent: its client could never continue.
        """
        meter = self.fetch.find(context.principal, context.header.client_id)
        if meter is None:
            return 0, False
        now_ms = self.now_ms()
        usage, limit = meter.usage, meter.limit
        usage.measure_elapsed_ms(now_ms)
        is_alone = usage.total == 0
        usage.record(size, now_ms)
        throttle_ms = min(meter.excess_ms(now_ms), CLIENT_THROTTLE_MS_MAX)
        if not throttle_ms:
            return 0, False
        if is_alone:
            self._throttle(meter, context, throttle_ms)
            return throttle_ms, False
        usage.record(-size, now_ms)
        meter.note(throttle_ms)
        context.connection.mute(
            throttle_ms, lambda: throttle_ms if meter.is_in_force and meter.limit <= limit else 0
        )
        return throttle_ms, True

    def count_fetched(self, context: AnyContext, size: int) -> int:
        """How long a client must wait after an answer of this size, which is sent in any case."""
        meter = self.fetch.find(context.principal, context.header.client_id)
        if meter is None:
            return 0
        now_ms = self.now_ms()
        meter.usage.record(size, now_ms)
        throttle_ms = min(meter.excess_ms(now_ms), CLIENT_THROTTLE_MS_MAX)
        if throttle_ms:
            self._throttle(meter, context, throttle_ms)
        return throttle_ms
