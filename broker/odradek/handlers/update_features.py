"""UpdateFeatures (KIP-584, KIP-778): change the finalized level of features, as `kafka-features upgrade` does."""

from __future__ import annotations

from typing import Final

from odradek.controller.feature_plans import FeatureUpdate, UpgradeType
from odradek.foundation.errors import OdradekError, RequestError
from odradek.handlers import change_log
from odradek.handlers.context import SharedContext
from odradek.protocol.api import ApiKey
from odradek.protocol.errors import error_code, error_message
from odradek.protocol.messages import Message, response
from odradek.protocol.requests.cluster import UpdateFeaturesRequest
from odradek.transport.pending import Pending

API: Final = ApiKey.UPDATE_FEATURES
_FIRST_VERSION_WITH_TYPE: Final = 1


def handle(request: UpdateFeaturesRequest, context: SharedContext) -> Pending[Message]:
    """Runs in a controller: `context.broker` is its `ControllerParts`."""
    return Pending(_update(request, context))


async def _update(request: UpdateFeaturesRequest, context: SharedContext) -> Message:
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
                change_log.feature_changed(context, update.name, level=update.level)
    outcome = {"error_code": error_code(failure), "error_message": error_message(failure)}
    # The features fail or succeed together, so each has the outcome of all.
    result = {**outcome, "error_message": outcome["error_message"] or ""}
    results = [{"feature": update.name, **result} for update in updates]
    return response(API, version, results=results, **outcome)


def _type_of(allows_downgrade: bool) -> int:
    return UpgradeType.SAFE_DOWNGRADE if allows_downgrade else UpgradeType.UPGRADE
