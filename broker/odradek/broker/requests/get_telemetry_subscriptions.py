"""GetTelemetrySubscriptions: which of its metrics a client shall push, and how often (KIP-714)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.parts import TelemetryParts
from odradek.broker.telemetry.client_telemetry import ACCEPTED_COMPRESSIONS
from odradek.wire.protocol.messages import Message
from odradek.wire.protocol.requests.clients import GetTelemetrySubscriptionsRequest

if TYPE_CHECKING:
    from uuid import UUID

_CALLBACK = "telemetry"


def handle(request: GetTelemetrySubscriptionsRequest, context: RequestContext[TelemetryParts]) -> Message:
    telemetry = context.broker.telemetry
    instance = telemetry.subscribe(request.client_instance_id, attributes_of(context))
    forget_when_lost(instance.id, context)
    return context.response(
        error_code=0,
        client_instance_id=instance.id,
        subscription_id=instance.subscription_id,
        accepted_compression_types=tuple(int(one) for one in ACCEPTED_COMPRESSIONS),
        push_interval=instance.push_interval_ms,
        telemetry_max_bytes=telemetry.bytes_max,
        delta_temporality=True,
        requested_metrics=instance.metrics,
    )


def attributes_of(context: RequestContext[TelemetryParts]) -> dict[str, str | None]:
    """What subscriptions match of a client, by Kafka's names."""
    connection = context.connection
    name, version = connection.client_software or (None, None)
    return {
        "client_id": context.header.client_id,
        "client_software_name": name,
        "client_software_version": version,
        "client_source_address": context.client_host,
        "client_source_port": str(connection.peer[1]) if connection.peer else None,
    }


def forget_when_lost(instance_id: UUID, context: RequestContext[TelemetryParts]) -> None:
    """Forget the instance once its connection has ended; what it has pushed stays for a while."""
    context.connection.when_lost(_CALLBACK, partial(context.broker.telemetry.instances.forget, instance_id))
