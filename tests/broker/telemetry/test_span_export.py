"""The export of spans where no collector takes them."""

from __future__ import annotations

import socket

from odradek.broker.telemetry.span_export import OtlpSpans


def test_a_collector_that_is_silent_keeps_no_process() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        spans = OtlpSpans(
            endpoint=f"http://127.0.0.1:{silent.getsockname()[1]}/v1/traces", service="s", instance="i"
        )
        spans.begin("one", 1, {}, parent=None).end(2, error=None)
        assert not spans.close(seconds_max=0.05)


def test_nothing_to_send_is_closed_at_once() -> None:
    spans = OtlpSpans(endpoint="http://127.0.0.1:1/v1/traces", service="s", instance="i")
    assert spans.close(seconds_max=60)
