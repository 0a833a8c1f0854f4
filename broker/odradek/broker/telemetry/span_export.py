"""Sends spans to a collector by OTLP over HTTP, with OpenTelemetry's own package.

Its environment variables hold (`OTEL_EXPORTER_OTLP_HEADERS`, `OTEL_EXPORTER_OTLP_CERTIFICATE` and the others). A queue
of a fixed size keeps spans until its thread sends them. What it has no room for, or the collector refuses, is dropped
and counted: a request never waits for its trace.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Final

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, Span, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanKind,
    StatusCode,
    TraceFlags,
    Tracer,
    set_span_in_context,
)
from opentelemetry.trace import SpanContext as TelemetryContext

from odradek.broker.telemetry.spans import Attributes, SpanContext
from odradek.foundation.rate_limited_log import RateLimitedLog
from odradek.foundation.telemetry_limits import (
    SPAN_BATCH_MAX,
    SPAN_EXPORT_SECONDS_MAX,
    SPAN_QUEUE_MAX,
    SPAN_SEND_EVERY_MS,
)
from odradek.foundation.version import __version__

logger = logging.getLogger(__name__)

_FAILURES_PER_MINUTE: Final = 1
_failures: Final = RateLimitedLog(
    logger, "spans that no collector took", lines_per_minute_max=_FAILURES_PER_MINUTE
)
# Its packages log each failed try and each span that is dropped. Here they are counted, with a line a minute.
_THEIR_LOGGERS: Final = ("opentelemetry.exporter", "opentelemetry.sdk", "opentelemetry.attributes")


class OtlpSpans:
    """A `Spans` of one process. `endpoint` is the collector's URL with its path; empty for that of the environment."""

    def __init__(self, *, endpoint: str, service: str, instance: str) -> None:
        for name in _THEIR_LOGGERS:
            logging.getLogger(name).setLevel(logging.CRITICAL)
        self._exporter = _CountingExporter(
            OTLPSpanExporter(endpoint=endpoint or None, timeout=SPAN_EXPORT_SECONDS_MAX), endpoint
        )
        self._provider = TracerProvider(
            sampler=ALWAYS_ON,
            resource=Resource.create(
                {"service.name": service, "service.instance.id": instance, "service.version": __version__}
            ),
            shutdown_on_exit=False,
        )
        self._processor = BatchSpanProcessor(
            self._exporter,
            max_queue_size=SPAN_QUEUE_MAX,
            max_export_batch_size=SPAN_BATCH_MAX,
            schedule_delay_millis=SPAN_SEND_EVERY_MS,
        )
        self._provider.add_span_processor(self._processor)
        self._tracer = self._provider.get_tracer("odradek", __version__)
        self._ended = 0

    @property
    def sent(self) -> int:
        return self._exporter.sent

    @property
    def failed(self) -> int:
        """Spans that the collector did not take."""
        return self._exporter.failed

    @property
    def ended(self) -> int:
        """All spans so far. Those that are neither sent nor failed wait, or found no room."""
        return self._ended

    def begin(
        self, name: str, start_ns: int, attributes: Attributes, *, parent: SpanContext | None
    ) -> OtlpSpan:
        context = None
        if parent is not None:
            remote = TelemetryContext(
                parent.trace_id, parent.span_id, is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED)
            )
            context = set_span_in_context(NonRecordingSpan(remote))
        span = self._tracer.start_span(
            name, context, kind=SpanKind.SERVER, attributes=attributes, start_time=start_ns
        )
        assert isinstance(span, Span)
        return OtlpSpan(self._tracer, span, self._count_ended)

    def _count_ended(self) -> None:
        self._ended += 1

    def close(self, *, seconds_max: float) -> bool:
        """Send what waits. False where the collector has not taken it in this time. It blocks."""
        # The package's own bound is longer, and this thread does not keep the process.
        sending = threading.Thread(target=self._provider.shutdown, name="last-spans", daemon=True)
        sending.start()
        sending.join(seconds_max)
        return not sending.is_alive()


class OtlpSpan:
    """Made by `OtlpSpans.begin`."""

    def __init__(self, tracer: Tracer, span: Span, count: Callable[[], None]) -> None:
        self._tracer = tracer
        self._span = span
        self._count = count

    @property
    def context(self) -> SpanContext:
        own = self._span.get_span_context()
        return SpanContext(own.trace_id, own.span_id, is_sampled=True)

    def add_child(self, name: str, start_ns: int, end_ns: int, attributes: Attributes) -> None:
        child = self._tracer.start_span(
            name, set_span_in_context(self._span), attributes=attributes, start_time=start_ns
        )
        child.end(end_ns)
        self._count()

    def end(self, end_ns: int, *, error: BaseException | None) -> None:
        if error is not None:
            self._span.set_attribute("error.type", type(error).__name__)
            self._span.set_status(StatusCode.ERROR, str(error))
        self._span.end(end_ns)
        self._count()


class _CountingExporter(SpanExporter):
    """Runs in the thread of the queue."""

    def __init__(self, exporter: OTLPSpanExporter, endpoint: str) -> None:
        self._exporter = exporter
        self._endpoint = endpoint or "the collector of the environment"
        self.sent = 0
        self.failed = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = self._exporter.export(spans)
        if result is SpanExportResult.SUCCESS:
            self.sent += len(spans)
        else:
            self.failed += len(spans)
            _failures.warning(
                "%d spans are lost, since %s did not take them; check trace.otlp.endpoint, or set trace.enable=false",
                len(spans),
                self._endpoint,
            )
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()  # type: ignore[no-untyped-call]
