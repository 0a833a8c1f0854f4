"""CreateTopics: create topics. A topic that fails does not keep the others from being created."""

from __future__ import annotations

from collections import Counter
from typing import Final

from odradek.broker.requests import change_log
from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.failures import error_fields
from odradek.broker.requests.long_answers import make_in_turns
from odradek.broker.requests.mutations import quota_of
from odradek.broker.requests.parts import AdminParts
from odradek.foundation.compaction import compaction_warning
from odradek.foundation.error_values import without_trace
from odradek.foundation.errors import InvalidReplicaAssignment, InvalidRequest, RequestError
from odradek.foundation.turns import Leftovers, Turn
from odradek.metadata.controller.requests import CreateOutcome, NewTopic, TopicMetadataAndConfig
from odradek.metadata.image.config_description import BrokerSources, describe_topic
from odradek.metadata.image.configs import topic_value
from odradek.metadata.image.topic_names import is_internal_topic
from odradek.wire.protocol.messages import Message
from odradek.wire.protocol.requests.cluster import CreatableTopic, CreateTopicsRequest

# From this version on the answer has the topic's partitions and settings.
_DETAILS_VERSION: Final = 5
_PROHIBITED: Final = "__cluster_metadata"


async def handle(request: CreateTopicsRequest, context: RequestContext[AdminParts]) -> Message:
    async with Leftovers() as kept:
        counts: dict[str, int] = kept.until_end({})
        outcomes: dict[str, CreateOutcome] = kept.until_end({})
        wanted: list[NewTopic] = kept.until_end([])
        turn = Turn()
        for topic in request.topics:
            if turn.is_over():
                await turn.next()
            counts[topic.name] = counts.get(topic.name, 0) + 1
        for topic in request.topics:
            if turn.is_over(1 + len(topic.assignments) + len(topic.configs)):
                await turn.next()
            try:
                if counts[topic.name] > 1:
                    raise InvalidRequest(
                        f"Duplicate topic name: {topic.name!r} is in the request more than once."
                    )
                wanted.append(_new_topic(topic))
            except RequestError as error:
                outcomes[topic.name] = without_trace(error)
        quota = quota_of(context.broker.mutations, context.principal, context.header)
        created = kept.until_end(
            await context.broker.active_controller.create_topics(
                wanted, validate_only=request.validate_only, spend=quota.spend
            )
        )
        for new, outcome in zip(wanted, created, strict=True):
            if turn.is_over():
                await turn.next()
            outcomes[new.name] = outcome
            if isinstance(outcome, TopicMetadataAndConfig) and not request.validate_only:
                _log(context, outcome)
        describe = _Describer(context)
        return await make_in_turns(
            context,
            len(counts),
            lambda: context.response(
                topics=(describe.answer(name, outcomes[name]) for name in counts),
                throttle_time=quota.throttle_ms,
            ),
        )


def _log(context: RequestContext[AdminParts], topic: TopicMetadataAndConfig) -> None:
    change_log.log_created_topic(
        context,
        topic.name,
        partitions=topic.partition_count,
        replicas=topic.replication_factor,
        config=topic.config,
    )


def _new_topic(topic: CreatableTopic) -> NewTopic:
    if topic.name == _PROHIBITED:
        raise InvalidRequest(f"Creation of internal topic {_PROHIBITED} is prohibited.")
    assignment: dict[int, tuple[int, ...]] = {}
    for partition in topic.assignments:
        if partition.partition_index in assignment:
            raise InvalidReplicaAssignment(
                f"the assignment names the partition {partition.partition_index} twice"
            )
        assignment[partition.partition_index] = partition.broker_ids
    keys = Counter(config.name for config in topic.configs)
    repeated = [key for key, count in keys.items() if count > 1]
    if repeated:
        raise InvalidRequest(f"the settings {', '.join(repeated)} are given more than once")
    return NewTopic(
        name=topic.name,
        partition_count=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignment=assignment,
        config={config.name: config.value for config in topic.configs},
    )


class _Describer:
    """The answers for topics of one request; equal settings are described once."""

    def __init__(self, context: RequestContext[AdminParts]) -> None:
        self._with_details = context.header.api_version >= _DETAILS_VERSION
        broker = context.broker
        self._sources = BrokerSources(broker.settings, broker.images.current, is_broker=broker.is_broker)
        self._described: dict[frozenset[tuple[str, str]], list[dict[str, object]]] = {}

    def answer(self, name: str, outcome: CreateOutcome) -> dict[str, object]:
        if not isinstance(outcome, TopicMetadataAndConfig):
            return {
                "name": name,
                **error_fields(outcome),
                "num_partitions": -1,
                "replication_factor": -1,
                "configs": [],
            }
        return {
            "name": name,
            "topic_id": outcome.id,
            "error_code": 0,
            # Other clients read the message only with an error; our own shows this one as a warning.
            "error_message": self._warning(outcome),
            "num_partitions": outcome.partition_count,
            "replication_factor": outcome.replication_factor,
            "configs": self._configs(outcome) if self._with_details else [],
        }

    def _warning(self, topic: TopicMetadataAndConfig) -> str | None:
        policy = topic_value("cleanup.policy", topic.config, settings=self._sources.current)
        is_enabled = self._sources.current.log_cleaner_enable
        return None if is_internal_topic(topic.name) else compaction_warning(policy, is_enabled=is_enabled)

    def _configs(self, topic: TopicMetadataAndConfig) -> list[dict[str, object]]:
        key = frozenset(topic.config.items())
        if key not in self._described:
            self._described[key] = [
                {
                    "name": entry.name,
                    # The value as the request has it; only this answer echoes it.
                    "value": topic.config.get(entry.name, entry.value),
                    "read_only": entry.is_read_only,
                    "config_source": entry.source,
                    "is_sensitive": entry.is_sensitive,
                }
                for entry in describe_topic(topic.config, sources=self._sources)
            ]
        return self._described[key]
