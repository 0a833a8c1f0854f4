"""The stores of a listener and cordons of log directories, tried by the broker that they are for before the change.

A change of `listener.name.NAME.ssl.keystore.location` and its like is written by the controller, which does not see
this broker's files. Where the stores cannot serve, the request is refused here, and nothing changes. So is a cordon of
a directory that this broker does not have (KIP-1066).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from odradek.broker.requests import late
from odradek.broker.requests.config_resources import ConfigResourceType
from odradek.foundation.endpoints import Endpoint
from odradek.foundation.errors import DependencyError, InvalidRequest, SettingError
from odradek.foundation.settings.areas.protection import LISTENER_PREFIX
from odradek.foundation.settings.broker_settings import Settings, find_listeners, find_setting
from odradek.foundation.settings.protection import (
    WITH_SASL,
    WITH_TLS,
    is_store_of_listener,
    missing_protections,
)
from odradek.metadata.controller.config_plans import incremental_texts, require_texts
from odradek.metadata.controller.requests import AlterConfigOp, ConfigOperation, Resource
from odradek.metadata.image.cordons import CORDON_KEY, EVERY_DIRECTORY
from odradek.metadata.image.image import ClusterImage, ResourceKind
from odradek.wire.protocol.requests.cluster import (
    AlterConfigsRequest,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)

_Resource = AlterConfigsResource | IncrementalAlterConfigsResource


def needs_trial(request: AlterConfigsRequest | IncrementalAlterConfigsRequest) -> bool:
    """Whether a request may change the stores of a listener, or cordons."""
    return any(
        config.name == CORDON_KEY or is_store_of_listener(config.name)
        for resource in request.resources
        if resource.resource_type == ConfigResourceType.BROKER
        for config in resource.configs
    )


async def try_settings(
    request: AlterConfigsRequest | IncrementalAlterConfigsRequest, *, settings: Settings, image: ClusterImage
) -> None:
    """Try those that this broker would have. `settings` are those of its start.

    Raises InvalidRequest where they cannot serve, or where a listener here speaks no TLS, so that they protect nothing.
    """
    own = str(settings.effective_broker_id)
    # Nothing connects to a listener that this broker does not have: its stores are kept without effect, as in Kafka.
    here = tuple(f"{LISTENER_PREFIX}{one.listener_name.lower()}." for one in find_listeners(settings))
    for resource in request.resources:
        if resource.resource_type != ConfigResourceType.BROKER or resource.resource_name != own:
            continue
        before = image.config(ResourceKind.BROKER, own)
        after = _texts_after(resource, own, before=before)
        _check_cordons(after.get(CORDON_KEY, ""), before.get(CORDON_KEY, ""), settings)
        stores = {
            key: text for key, text in after.items() if is_store_of_listener(key) and key.startswith(here)
        }
        missing = missing_protections(stores, find_setting, listeners=find_listeners(settings))
        new = [one for one in missing if before.get(one.shown.partition("=")[0]) is None]
        if new:
            raise InvalidRequest(str(new[0]))
        try:
            wanted = settings.with_overrides(stores)
            for endpoint in settings.listener_endpoints:
                if endpoint.security_protocol in WITH_TLS:
                    await asyncio.to_thread(_try_listener, wanted, endpoint)
        except (SettingError, DependencyError) as failure:
            raise InvalidRequest(str(failure)) from None


def _check_cordons(after: str, before: str, settings: Settings) -> None:
    if after in (before, EVERY_DIRECTORY):
        return
    directories = [one.rstrip("/") or "/" for one in settings.log_directories]
    cordoned = {one.strip() for one in after.split(",") if one.strip()}
    unknown = sorted(cordoned.difference(directories))
    if unknown:
        raise InvalidRequest(
            f"Invalid entry in {CORDON_KEY}: {', '.join(unknown)}. The log directories of this broker are "
            f"{', '.join(directories)}."
        )
    if cordoned.issuperset(directories):
        raise InvalidRequest(
            f"{after} are all log directories of this broker: set {CORDON_KEY}={EVERY_DIRECTORY}."
        )


def _texts_after(resource: _Resource, own: str, *, before: Mapping[str, str]) -> Mapping[str, str]:
    if isinstance(resource, AlterConfigsResource):
        return require_texts({config.name: config.value for config in resource.configs})
    changes = [
        AlterConfigOp(config.name, ConfigOperation(config.config_operation), config.value)
        for config in resource.configs
        if config.config_operation in list(ConfigOperation)
    ]
    return incremental_texts(Resource(ResourceKind.BROKER, own), changes, before=before)


def _try_listener(settings: Settings, endpoint: Endpoint) -> None:
    """Raises SettingError or DependencyError. Blocks: not for the event loop."""
    is_sasl = endpoint.security_protocol in WITH_SASL
    late.server_context(late.listener_tls(settings, endpoint.listener_name, is_sasl=is_sasl))
