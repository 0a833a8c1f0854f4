"""The part of a broker that takes metrics of clients: one without client.telemetry.enable never loads it."""

from __future__ import annotations

from odradek.broker.process.environment import BrokerEnvironment
from odradek.broker.requests.context import RequestParts
from odradek.broker.requests.parts import TelemetryParts
from odradek.broker.telemetry.client_telemetry import ClientTelemetry


def telemetry_parts(shared: RequestParts, environment: BrokerEnvironment) -> TelemetryParts:
    """What the handlers of telemetry may use, until the broker stops."""
    telemetry = ClientTelemetry(
        environment.images,
        bytes_max=environment.settings.telemetry_max_bytes,
        now=environment.clock.monotonic_seconds,
        rng=environment.rng,
    )
    environment.closing.callback(telemetry.stop)
    return TelemetryParts(shared, telemetry=telemetry)
