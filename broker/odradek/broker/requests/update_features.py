"""UpdateFeatures (KIP-584, KIP-778): change the finalized level of features, as `kafka-features upgrade` does."""

from __future__ import annotations

from typing import Final

from odradek.broker.requests import change_log
from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.failures import error_fields
from odradek.broker.requests.parts import AdminParts
from odradek.foundation.errors import OdradekError, RequestError
from odradek.metadata.controller.feature_plans import FeatureUpdate, UpgradeType
from odradek.wire.protocol.messages import Message
from odradek.wire.protocol.requests.cluster import UpdateFeaturesRequest

_FIRST_VERSION_WITH_TYPE: Final = 1


async def handle(request: UpdateFeaturesRequest, context: RequestContext[AdminParts]) -> Message:
    """Runs in a controller: `context.broker` is its `ControllerParts`."""
    version = context.header.api_version
    updates = [
        FeatureUpdate(
            one.feature,
            one.max_version_level,
            one.upgrade_type if version >= _FIRST_VERSION_WITH_TYPE else _type_of(one.allow_downgrade),
        )
        for one in request.feature_updates
    ]
    failure: OdradekError | None = None
    try:
        await context.broker.active_controller.update_features(updates, validate_only=request.validate_only)
    except RequestError as error:
        failure = error
    else:
        if not request.validate_only:
            for update in updates:
                change_log.log_changed_feature(context, update.name, level=update.level)
    outcome = error_fields(failure)
    # The features fail or succeed together, so each has the outcome of all.
    result = {**outcome, "error_message": outcome["error_message"] or ""}
    results = [{"feature": update.name, **result} for update in updates]
    return context.response(results=results, **outcome)


def _type_of(allows_downgrade: bool) -> int:
    return UpgradeType.SAFE_DOWNGRADE if allows_downgrade else UpgradeType.UPGRADE
