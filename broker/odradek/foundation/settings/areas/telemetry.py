"""Metrics that clients push (KIP-714), and traces of requests.

Which metrics clients are asked for is in the registry (client-metrics).
"""

from __future__ import annotations

from odradek.foundation.settings.declaration import Scope, boolean, double, integer, text


class TelemetrySettings:
    """Whether clients may push, and how much at once."""

    client_telemetry_enable: bool = boolean(
        False,
        "Whether clients may push their metrics, which appear in /metrics. In Kafka a plug-in has the same effect.",
    )
    telemetry_max_bytes: int = integer(
        1_048_576, "The most bytes of metrics that a client may push at once, also decompressed.", 1
    )


class TraceSettings:
    """Traces of requests for OpenTelemetry. None of these is one of Kafka's."""

    trace_enable: bool = boolean(
        False,
        "Whether requests are traced: those whose sender traces them, and a part of the others. It needs the extra "
        "`odradek[traces]`.",
        scope=Scope.CLUSTER_WIDE,
    )
    trace_sampling_ratio: float = double(
        0.001,
        "The part of the requests without a trace of their sender that begins one.",
        0.0,
        1.0,
        scope=Scope.CLUSTER_WIDE,
    )
    trace_otlp_endpoint: str = text(
        "",
        "Where traces go by OTLP over HTTP, as `http://collector:4318/v1/traces`. Empty for the place that "
        "OTEL_EXPORTER_OTLP_ENDPOINT names, or this host.",
    )
