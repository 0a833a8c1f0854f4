"""ApiVersions: which APIs in which versions, read from the table of handlers; features as in Kafka 4.1.

From version 5 on a client may name the cluster and the node that it means. Another one answers REBOOTSTRAP_REQUIRED.

A client with a newer version than is served gets version 0 of the answer, with UNSUPPORTED_VERSION and the range of
this API. It then asks again (KIP-511). Only features that are served are named
(`metadata.image.features`). A client takes the finalized ones only from an answer with a higher epoch than any before.
"""

from __future__ import annotations

import re
from typing import Final

from odradek.broker.requests.context import AnyContext
from odradek.broker.requests.table import ADVERTISED_VERSION_MIN, HANDLERS, Handler
from odradek.foundation.errors import InvalidRequest, RebootstrapRequired, RequestError, UnsupportedVersion
from odradek.metadata.image.features import FIXED, SUPPORTED
from odradek.wire.protocol import messages
from odradek.wire.protocol.api import ApiKey
from odradek.wire.protocol.errors import error_code
from odradek.wire.protocol.messages import Message
from odradek.wire.protocol.requests.cluster import ApiVersionsRequest

# Kafka's own pattern; names and versions end up in logs and metrics.
_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_FIRST_VERSION_WITH_SOFTWARE: Final = 3
# A feature with a lowest version of 0 breaks older readers (KIP-1011): it is named from version 4 on.
_FIRST_VERSION_WITH_FEATURES_FROM_0: Final = 4
# The client may say which cluster and node it means to reach (KIP-1242).
_FIRST_VERSION_WITH_NODE: Final = 5
_NO_NODE: Final = -1


def handle(request: ApiVersionsRequest, context: AnyContext) -> Message:
    version = context.header.api_version
    table = context.broker.handlers
    if version >= _FIRST_VERSION_WITH_SOFTWARE:
        name, software_version = request.client_software_name, request.client_software_version
        if not _SOFTWARE.fullmatch(name) or not _SOFTWARE.fullmatch(software_version):
            invalid = InvalidRequest(
                f"The client software name {name!r} or version {software_version!r} is not allowed."
            )
            return context.response(error_code=error_code(invalid), api_keys=())
        context.connection.client_software = (name, software_version)
    if version >= _FIRST_VERSION_WITH_NODE:
        mistake = _find_mistake(request, context)
        if mistake is not None:
            return context.response(error_code=error_code(mistake), api_keys=())
    supported = [
        {"name": name, "min_version": lowest, "max_version": highest}
        for name, (lowest, highest) in SUPPORTED.items()
    ]
    features = context.broker.images.current.features
    finalized = {**FIXED, **features.levels}
    return context.response(
        error_code=0,
        api_keys=[_row(api_key, table[api_key]) for api_key in sorted(table)],
        throttle_time=0,
        supported_features=supported if version >= _FIRST_VERSION_WITH_FEATURES_FROM_0 else (),
        finalized_features_epoch=features.epoch,
        finalized_features=[
            {"name": name, "max_version_level": level, "min_version_level": level}
            for name, level in sorted(finalized.items())
        ],
        zk_migration_ready=False,
    )


def _find_mistake(request: ApiVersionsRequest, context: AnyContext) -> RequestError | None:
    """The error of a client that meant to reach another cluster or node, or names only one of them.

    An address may have come to another broker. A controller has no id that its clients know: they are our brokers.
    """
    cluster_id, node_id = request.cluster_id, request.node_id
    if (cluster_id is None) != (node_id == _NO_NODE):
        return InvalidRequest("ClusterId and NodeId must be given both or not at all.")
    if cluster_id is None or not context.broker.is_broker:
        return None
    here = context.broker.images.current.cluster_id, context.broker.node_id
    if (cluster_id, node_id) == here:
        return None
    return RebootstrapRequired(
        f"this is node {here[1]} of the cluster {here[0]}, not node {node_id} of {cluster_id}; bootstrap again"
    )


def answer_unsupported() -> Message:
    """The answer, in version 0, to a client that asked in a version that is not served."""
    return messages.response(
        ApiKey.API_VERSIONS,
        0,
        error_code=error_code(UnsupportedVersion("")),
        api_keys=[_row(ApiKey.API_VERSIONS, HANDLERS[ApiKey.API_VERSIONS])],
    )


def _row(api_key: int, handler: Handler) -> dict[str, int]:
    return {
        "api_key": api_key,
        "min_version": ADVERTISED_VERSION_MIN.get(api_key, handler.version_min),
        "max_version": handler.version_max,
    }
