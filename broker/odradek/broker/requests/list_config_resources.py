"""ListConfigResources: the resources that can be described. Version 0 lists client metrics only."""

from __future__ import annotations

from odradek.broker.requests.config_resources import ConfigResourceType
from odradek.broker.requests.context import AnyContext
from odradek.foundation.errors import UnsupportedVersion
from odradek.metadata.image.image import ResourceKind
from odradek.wire.protocol.messages import Message
from odradek.wire.protocol.requests.cluster import ListConfigResourcesRequest


def handle(request: ListConfigResourcesRequest, context: AnyContext) -> Message:
    if context.header.api_version == 0:
        wanted = [int(ConfigResourceType.CLIENT_METRICS)]
    else:
        wanted = list(dict.fromkeys(request.resource_types)) or [int(kind) for kind in ConfigResourceType]
    unknown = [number for number in wanted if number not in list(ConfigResourceType)]
    if unknown:
        raise UnsupportedVersion(f"There are no resources of the types {unknown}.")
    resources = [
        {"resource_name": name, "resource_type": number}
        for number in wanted
        for name in _names(ConfigResourceType(number), context)
    ]
    return context.response(config_resources=resources)


def _names(resource_type: ConfigResourceType, context: AnyContext) -> list[str]:
    image = context.broker.images.current
    match resource_type:
        case ConfigResourceType.TOPIC:
            return sorted(image.topics)
        case ConfigResourceType.BROKER | ConfigResourceType.BROKER_LOGGER:
            # As in Kafka, also those that are away.
            return [str(broker_id) for broker_id in sorted({*image.brokers, *image.registrations})]
        case ConfigResourceType.GROUP:
            return sorted(name for kind, name in image.configs if kind is ResourceKind.GROUP)
        case ConfigResourceType.CLIENT_METRICS:
            return sorted(name for kind, name in image.configs if kind is ResourceKind.CLIENT_METRICS)
