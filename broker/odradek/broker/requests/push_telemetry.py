"""PushTelemetry: metrics of a client, which become series of /metrics (KIP-714).

A thread decompresses and reads them. What cannot be read is answered with INVALID_RECORD, as Kafka does where its
plug-in fails, also for data that grows beyond telemetry.max.bytes.
"""

from __future__ import annotations

from functools import partial

from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.get_telemetry_subscriptions import attributes_of, forget_when_lost
from odradek.broker.requests.parts import TelemetryParts
from odradek.broker.telemetry.series import read_push
from odradek.foundation.errors import InvalidRecord
from odradek.wire.protocol.messages import Message
from odradek.wire.protocol.requests.clients import PushTelemetryRequest


async def handle(request: PushTelemetryRequest, context: RequestContext[TelemetryParts]) -> Message:
    telemetry = context.broker.telemetry
    metrics, compression = request.metrics, request.compression_type
    instance = telemetry.admit(
        request.client_instance_id,
        attributes_of(context),
        subscription_id=request.subscription_id,
        compression=compression,
        size=len(metrics),
        is_terminating=request.terminating,
    )
    forget_when_lost(instance.id, context)
    if metrics:
        reading = partial(read_push, metrics, compression, bytes_max=telemetry.bytes_max)
        try:
            pushed = await context.broker.long_work.submit(reading)
        except InvalidRecord:
            telemetry.refused += 1
            raise
        telemetry.take(instance, telemetry.labels_of(instance), pushed)
    return context.response(error_code=0)
