"""A collector of traces on loopback: it takes OTLP over HTTP, as OpenTelemetry's own, and keeps the spans."""

from __future__ import annotations

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.support.polling import wait_until


class CollectedSpan(NamedTuple):
    """`instance` is the process that sent it. Ids are hexadecimal texts; a trace's first span has no parent."""

    instance: str
    name: str
    trace_id: str
    span_id: str
    parent_id: str
    start_ns: int
    end_ns: int
    attributes: dict[str, Any]
    is_error: bool


class SpanCollector:
    """`status` is what it answers; with 503 it takes nothing."""

    def __init__(self) -> None:
        self.status = 200
        self.spans: list[CollectedSpan] = []
        self.requests = 0
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                collector.requests += 1
                if collector.status == 200:
                    collector.spans += _read(body)
                self.send_response(collector.status)
                self.end_headers()

            def log_message(self, format: str, *arguments: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1/traces"

    def await_span(self, is_wanted: Callable[[CollectedSpan], bool]) -> CollectedSpan:
        """The first such span, which may still come."""
        found = wait_until(
            "a span", lambda: list(filter(is_wanted, list(self.spans))), more=lambda: self.spans
        )
        return found[0]

    def children(self, span: CollectedSpan) -> dict[str, CollectedSpan]:
        return {other.name: other for other in self.spans if other.parent_id == span.span_id}

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _read(body: bytes) -> list[CollectedSpan]:
    request = ExportTraceServiceRequest.FromString(body)
    return [
        CollectedSpan(
            _attributes(resource.resource.attributes)["service.instance.id"],
            span.name,
            span.trace_id.hex(),
            span.span_id.hex(),
            span.parent_span_id.hex(),
            span.start_time_unix_nano,
            span.end_time_unix_nano,
            _attributes(span.attributes),
            span.status.code == span.status.STATUS_CODE_ERROR,
        )
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


def _attributes(attributes: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in attributes}
