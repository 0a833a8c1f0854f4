"""Metrics that clients push (KIP-714); which ones they are asked for is in the registry (client-metrics)."""

from __future__ import annotations

from odradek.foundation.settings.declaration import boolean, integer


class TelemetrySettings:
    """Whether clients may push, and how much at once."""

    client_telemetry_enable: bool = boolean(
        False,
        "Whether clients may push their metrics, which appear in /metrics. In Kafka a plug-in has the same effect.",
    )
    telemetry_max_bytes: int = integer(
        1_048_576, "The most bytes of metrics that a client may push at once, also decompressed.", 1
    )
