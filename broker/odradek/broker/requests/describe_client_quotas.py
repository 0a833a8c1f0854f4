"""DescribeClientQuotas: the quotas of users, client ids and addresses that match a filter (KIP-546)."""

from __future__ import annotations

from collections.abc import Mapping

from odradek.broker.quotas.filters import FilterComponent, QuotaFilter
from odradek.broker.quotas.keys import QuotaKey, parts_of, quota_values
from odradek.broker.requests.context import AnyContext
from odradek.broker.requests.failures import error_fields
from odradek.foundation.client_entities import ClientEntity
from odradek.foundation.errors import RequestError
from odradek.metadata.image.image import ClientConfigs
from odradek.wire.protocol.messages import Message
from odradek.wire.protocol.requests.clients import DescribeClientQuotasRequest


def handle(request: DescribeClientQuotasRequest, context: AnyContext) -> Message:
    try:
        wanted = QuotaFilter(
            [FilterComponent(one.entity_type, one.match_type, one.match) for one in request.components],
            strict=request.strict,
        )
    except RequestError as error:
        return context.response(**error_fields(error), entries=None)
    return context.response(entries=_entries(context.broker.images.current.client_configs, wanted))


def _entries(configs: ClientConfigs, wanted: QuotaFilter) -> list[dict[str, object]]:
    return [
        _entry(entity, values)
        for entity, texts in configs.items()
        # A user may have credentials and no quota.
        if wanted.matches(entity) and (values := quota_values(texts))
    ]


def _entry(entity: ClientEntity, values: Mapping[QuotaKey, float]) -> dict[str, object]:
    return {
        "entity": [{"entity_type": kind, "entity_name": name} for kind, name in parts_of(entity)],
        "values": [{"key": str(key), "value": value} for key, value in sorted(values.items())],
    }
