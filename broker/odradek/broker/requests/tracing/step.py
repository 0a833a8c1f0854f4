"""The step that traces requests: a span for each that is sampled, with where its time went.

    queue                      it was received, and waited for its connection's turn
    handle                     the handler's first part, in one turn of the loop
    wait                       from then to its answer: for replicas, for records, for members, for other brokers
    replicate to broker N      from its append until that follower asked for what comes behind

Requests to other brokers that a handler makes carry the span in their headers, so their spans are parts of it. A
sender's decision holds: its request is traced if the sender is. The others are drawn.
"""

from __future__ import annotations

import random
import time
from contextvars import copy_context
from time import monotonic
from typing import TYPE_CHECKING, Final, NoReturn, cast

from odradek.broker.requests.subjects import describe_subjects, parse_request, shorten
from odradek.broker.telemetry.spans import (
    Attribute,
    OpenSpan,
    SpanContext,
    Spans,
    encode_tags,
    find_producer,
    find_sender,
)
from odradek.foundation.errors import InvalidRequest
from odradek.network.pending import Pending
from odradek.wire.protocol.api import ApiKey
from odradek.wire.protocol.framing import REQUEST_TAGS
from odradek.wire.protocol.hot.fetch_request import FetchRequest
from odradek.wire.protocol.hot.produce import ProduceRequest, parse_produce_request

if TYPE_CHECKING:
    from odradek.broker.requests.context import AnyContext
    from odradek.broker.requests.loading import Answer, Handle
    from odradek.broker.requests.tracing.followers import FollowerWaits
    from odradek.foundation.ids import TopicPartition

_NANOSECONDS: Final = 1_000_000_000
_PRODUCE: Final = int(ApiKey.PRODUCE)
_FETCH: Final = int(ApiKey.FETCH)


class TracingStep:
    """Traces the requests of one dispatcher. `followers` is None in a process without logs."""

    def __init__(
        self, spans: Spans, *, followers: FollowerWaits | None, rng: random.Random | None = None
    ) -> None:
        self._spans = spans
        self._followers = followers
        self._draw = (rng or random.Random()).random
        self.sampling_ratio = 0.0

    def __call__(self, handle: Handle, request: object, context: AnyContext) -> Answer:
        header = context.header
        followers = self._followers
        is_awaited = followers is not None and not followers.is_empty and header.api_key == _FETCH
        if followers is not None and is_awaited and isinstance(request, memoryview):
            followers.note_fetch(header, request)
        parent = find_sender(header) or _find_producer(request, context)
        if self._draw() >= self.sampling_ratio if parent is None else not parent.is_sampled:
            return handle(request, context)
        parsed = parse_request(request, header)
        if isinstance(parsed, FetchRequest) and parsed.replica_id >= 0:
            return handle(request, context)  # of a follower, which asks all the time
        return self._trace(handle, request, context, parsed, parent)

    def _trace(
        self, handle: Handle, request: object, context: AnyContext, parsed: object, parent: SpanContext | None
    ) -> Answer:
        times = _Times(context)
        span = self._spans.begin(
            ApiKey(context.header.api_key).name,
            times.first_ns,
            _describe(request, parsed, context),
            parent=parent,
        )
        if times.first_ns < times.received_ns:
            span.add_child("queue", times.first_ns, times.received_ns, {})
        variables = copy_context()
        variables.run(REQUEST_TAGS.set, encode_tags(span.context))
        try:
            answer = variables.run(handle, request, context)
        except Exception as error:
            span.end(times.now_ns(), error=error)
            raise
        handled_ns = times.now_ns()
        span.add_child("handle", times.received_ns, handled_ns, {})
        if not isinstance(answer, Pending):
            span.end(handled_ns, error=None)
            return answer
        answer.run_in(variables)
        self._follow(cast("Pending[object]", answer), span, times, handled_ns, parsed)
        return answer

    def _follow(
        self, answer: Pending[object], span: OpenSpan, times: _Times, handled_ns: int, parsed: object
    ) -> None:
        failures: list[Exception] = []

        def note_failure(error: Exception) -> NoReturn:
            failures.append(error)
            raise error

        def note_follower(broker_id: int, partition: TopicPartition) -> None:
            span.add_child(
                f"replicate to broker {broker_id}",
                handled_ns,
                times.now_ns(),
                {
                    "messaging.destination.name": partition.topic,
                    "messaging.destination.partition.id": str(partition.partition),
                },
            )

        end_wait = None
        if isinstance(parsed, ProduceRequest) and self._followers is not None:
            end_wait = self._followers.begin(parsed, note_follower)

        def end(settled: Pending[object]) -> None:
            if end_wait is not None:
                end_wait()
            ended_ns = times.now_ns()
            span.add_child("wait", handled_ns, ended_ns, {"odradek.cancelled": settled.cancelled()})
            span.end(ended_ns, error=failures[0] if failures else None)

        answer.then(lambda ready: ready, failed=note_failure)
        answer.when_settled(end)


class _Times:
    """The clock of one span: the loop's steps are measured with a clock that never goes back."""

    def __init__(self, context: AnyContext) -> None:
        self._offset_ns = time.time_ns() - int(monotonic() * _NANOSECONDS)
        self.received_ns = self._at(context.received_at)
        since = context.connection.waiting_since
        self.first_ns = self._at(since) if since else self.received_ns

    def _at(self, seconds: float) -> int:
        return self._offset_ns + int(seconds * _NANOSECONDS)

    def now_ns(self) -> int:
        return self._at(monotonic())


def _find_producer(request: object, context: AnyContext) -> SpanContext | None:
    header = context.header
    if header.api_key != _PRODUCE:
        return None
    try:
        if isinstance(request, memoryview):
            request = parse_produce_request(header.api_version, request, header.body_position)
    except InvalidRequest:
        return None  # the handler says so
    return find_producer(request) if isinstance(request, ProduceRequest) else None


def _describe(request: object, parsed: object, context: AnyContext) -> dict[str, Attribute]:
    """By OpenTelemetry's conventions for messaging, and what they have no name for."""
    header, connection = context.header, context.connection
    found: dict[str, object] = {
        "messaging.system": "kafka",
        "messaging.operation.name": ApiKey(header.api_key).name.lower(),
        "messaging.client.id": shorten(header.client_id),
        "network.peer.address": str(connection.peer[0]) if connection.peer else None,
        "network.peer.port": connection.peer[1] if connection.peer else None,
        "odradek.listener": connection.listener_name,
        "odradek.principal": shorten(context.principal),
        "odradek.api.version": header.api_version,
        "odradek.correlation_id": header.correlation_id,
        "odradek.request.bytes": len(request) if isinstance(request, memoryview) else None,
    }
    names = {"topic": "messaging.destination.name", "group": "messaging.consumer.group.name"}
    for name, value in describe_subjects(parsed, context.broker.images.current).items():
        found[names.get(name, f"odradek.{name}")] = value
    return {name: cast(Attribute, value) for name, value in found.items() if value is not None}
