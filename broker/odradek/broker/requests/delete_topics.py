"""DeleteTopics: by name, and since version 6 also by id."""

from __future__ import annotations

from collections import Counter
from typing import Final

from odradek.broker.requests import change_log
from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.failures import error_fields
from odradek.broker.requests.mutations import quota_of
from odradek.broker.requests.parts import AdminParts
from odradek.foundation.errors import InvalidRequest, RequestError, TopicDeletionDisabled
from odradek.foundation.ids import TopicId
from odradek.metadata.controller.requests import DeletedTopic, DeleteOutcome
from odradek.wire.protocol.messages import Message
from odradek.wire.protocol.requests.cluster import DeleteTopicsRequest

_TOPIC_IDS_VERSION: Final = 6
# Before this version clients do not know TOPIC_DELETION_DISABLED.
_DELETION_DISABLED_VERSION: Final = 3


async def handle(request: DeleteTopicsRequest, context: RequestContext[AdminParts]) -> Message:
    version = context.header.api_version
    asked: list[tuple[str | None, TopicId | None]]
    if version >= _TOPIC_IDS_VERSION:
        asked = [(topic.name, topic.topic_id) for topic in request.topics]
    else:
        asked = [(name, None) for name in request.topic_names]
    counts = Counter(asked)
    responses: dict[tuple[str | None, TopicId | None], dict[str, object]] = {}
    wanted: dict[str | TopicId, tuple[str | None, TopicId | None]] = {}
    for pair in counts:
        try:
            is_twice = counts[pair] > 1 or pair in context.named_twice
            wanted[_choose_key(*pair, is_twice=is_twice)] = pair
        except RequestError as error:
            responses[pair] = _response(*pair, error, version=version)
    quota = quota_of(context.broker.mutations, context.principal, context.header)
    outcomes = await context.broker.active_controller.delete_topics(list(wanted), spend=quota.spend)
    for pair, outcome in zip(wanted.values(), outcomes, strict=True):
        responses[pair] = _response(*pair, outcome, version=version)
        if isinstance(outcome, DeletedTopic):
            change_log.log_deleted_topic(context, outcome.name)
    answers = [responses[pair] for pair in counts]
    return context.response(responses=answers, throttle_time=quota.throttle_ms)


def _choose_key(name: str | None, topic_id: TopicId | None, *, is_twice: bool) -> str | TopicId:
    if name is not None and topic_id is not None:
        raise InvalidRequest("You may not specify both topic name and topic id.")
    wanted = topic_id if name is None else name
    if wanted is None:
        raise InvalidRequest("Neither topic name nor id were specified.")
    if is_twice:
        raise InvalidRequest(f"Duplicate topic: {wanted} is in the request more than once.")
    return wanted


def _response(
    name: str | None, topic_id: TopicId | None, outcome: DeleteOutcome, *, version: int
) -> dict[str, object]:
    if isinstance(outcome, DeletedTopic):
        return {"name": outcome.name, "topic_id": outcome.id, "error_code": 0}
    if isinstance(outcome, TopicDeletionDisabled) and version < _DELETION_DISABLED_VERSION:
        outcome = InvalidRequest(str(outcome))
    return {"name": name, "topic_id": topic_id, **error_fields(outcome)}
