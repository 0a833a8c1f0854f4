"""DescribeCluster: the cluster's id, its brokers, and what the asking principal may do to it.

Where a client asks for them (KIP-1073), brokers that the cluster knows and that are away are answered as fenced.
"""

from __future__ import annotations

from typing import Final

from odradek.broker.requests.authorized_operations import of_cluster
from odradek.broker.requests.context import AnyContext
from odradek.broker.requests.failures import error_fields
from odradek.broker.requests.partition_metadata import broker_addresses, controller_for_clients
from odradek.foundation.errors import MismatchedEndpointType, UnsupportedEndpointType
from odradek.wire.protocol.messages import Message
from odradek.wire.protocol.requests.cluster import DescribeClusterRequest

_BROKERS: Final = 1
_CONTROLLERS: Final = 2


def handle(request: DescribeClusterRequest, context: AnyContext) -> Message:
    endpoint_type = request.endpoint_type
    if endpoint_type != _BROKERS:
        error = _refusal(endpoint_type)
        return context.response(**error_fields(error), endpoint_type=_BROKERS, cluster_id="", brokers=[])
    image = context.broker.images.current
    fenced = image.fenced_brokers if request.include_fenced_brokers else {}
    return context.response(
        endpoint_type=_BROKERS,
        cluster_id=image.cluster_id,
        controller_id=controller_for_clients(image),
        brokers=[
            {"broker_id": number, "host": host, "port": port, "rack": rack, "is_fenced": number in fenced}
            for number, host, port, rack in broker_addresses(
                {**image.brokers, **fenced}, context.listener_name
            )
        ],
        cluster_authorized_operations=of_cluster(
            context, is_asked=request.include_cluster_authorized_operations
        ),
    )


def _refusal(endpoint_type: int) -> MismatchedEndpointType | UnsupportedEndpointType:
    if endpoint_type == _CONTROLLERS:
        return MismatchedEndpointType(
            "The request was sent to an endpoint of type BROKER, but wanted an endpoint of type CONTROLLER; "
            "use the bootstrap servers of brokers"
        )
    return UnsupportedEndpointType(f"There is no endpoint type {endpoint_type}; 1 stands for brokers")
