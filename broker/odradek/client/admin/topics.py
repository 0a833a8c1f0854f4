"""Topics: list, describe, create, delete, add partitions.

A call for several topics returns a result or an error for each. A call for one topic raises its error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from odradek.client.admin.configs import ConfigAdmin
from odradek.client.arguments import config_text, topic_name
from odradek.client.checked_calls import checking_arguments
from odradek.client.client import Client
from odradek.client.errors import error_for, raise_first, raise_for
from odradek.client.metadata import NO_TOPIC_ID, TopicInfo
from odradek.client.results import CreatedTopic, ResourceType, TopicSpec
from odradek.foundation.errors import LeaderNotAvailable, OdradekError
from odradek.wire.protocol.api import ApiKey

if TYPE_CHECKING:
    from odradek.wire.protocol.messages import AnyMessage
    from odradek.wire.protocol.responses.cluster import (
        CreatePartitionsResponse,
        CreateTopicsResponse,
        DeleteTopicsResponse,
    )

CREATE_VERSIONS = (2, 7)
# Before 4 a broker does not choose numbers by itself.
CREATE_VERSION_WITH_DEFAULTS = 4
DELETE_VERSIONS = (1, 6)
CREATE_PARTITIONS_VERSIONS = (0, 3)


@checking_arguments()
class TopicAdmin:
    """The admin calls for topics."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def list(self, *, include_internal: bool = True) -> list[TopicInfo]:
        """Every topic, by name."""
        cluster = await self._client.with_retries(lambda: self._client.refresh(None))
        topics = (topic for topic in cluster.topics.values() if include_internal or not topic.is_internal)
        return sorted(topics, key=lambda topic: topic.name)

    async def describe(self, name: str) -> TopicInfo:
        """One topic as it is now. Raises UnknownTopicOrPartition."""
        return (await self._client.refresh((name,))).topic(name)

    async def create_many(
        self, specs: Sequence[TopicSpec], *, validate_only: bool = False
    ) -> dict[str, CreatedTopic | OdradekError]:
        """Create topics. Each name has the topic or its error."""
        specs = await self._with_numbers(specs)
        topics = [
            {
                "name": topic_name(spec.name, argument="name"),
                "num_partitions": spec.partitions,
                "replication_factor": spec.replication_factor,
                "assignments": [
                    {"partition_index": partition, "broker_ids": replicas}
                    for partition, replicas in sorted(spec.assignments.items())
                ],
                "configs": [
                    {"name": key, "value": config_text(value)} for key, value in spec.configs.items()
                ],
            }
            for spec in specs
        ]
        response: CreateTopicsResponse = await self._ask(
            ApiKey.CREATE_TOPICS,
            CREATE_VERSIONS,
            answers="topics",
            topics=topics,
            validate_only=validate_only,
        )
        by_name = {spec.name: spec for spec in specs}
        return {
            topic.name: error_for(
                topic.error_code, topic.error_message, about=f"topic {topic.name!r}", topic=topic.name
            )
            or CreatedTopic(
                name=topic.name,
                id=getattr(topic, "topic_id", None) or NO_TOPIC_ID,
                partitions=getattr(topic, "num_partitions", by_name[topic.name].partitions),
                replication_factor=getattr(
                    topic, "replication_factor", by_name[topic.name].replication_factor
                ),
                warning=topic.error_message or None,
            )
            for topic in response.topics
        }

    async def create(
        self,
        name: str,
        *,
        partitions: int = -1,
        replication_factor: int = -1,
        configs: Mapping[str, str | float | None] | None = None,
        validate_only: bool = False,
    ) -> CreatedTopic:
        """Create one topic. Numbers and bools among the configs are written as Kafka writes them.

        Raises TopicAlreadyExists, InvalidTopic, InvalidConfig, InvalidPartitions, …"""
        spec = TopicSpec(
            name=name, partitions=partitions, replication_factor=replication_factor, configs=configs or {}
        )
        result = (await self.create_many([spec], validate_only=validate_only))[name]
        if isinstance(result, OdradekError):
            raise result
        return result

    async def delete_many(self, names: Sequence[str]) -> dict[str, OdradekError | None]:
        """Delete topics. Each name has None or its error."""
        topics = [{"name": name, "topic_id": None} for name in names]
        response: DeleteTopicsResponse = await self._ask(
            ApiKey.DELETE_TOPICS, DELETE_VERSIONS, answers="responses", topics=topics, topic_names=names
        )
        return {
            str(topic.name): error_for(
                topic.error_code,
                getattr(topic, "error_message", None),
                about=f"topic {topic.name!r}",
                topic=topic.name or "",
            )
            for topic in response.responses
        }

    async def delete(self, name: str) -> None:
        """Delete one topic. Raises UnknownTopicOrPartition, TopicDeletionDisabled."""
        raise_first((await self.delete_many([name])).values())

    async def create_partitions(self, name: str, *, total: int, validate_only: bool = False) -> None:
        """Increase one topic's partitions to `total`. Raises InvalidPartitions, UnknownTopicOrPartition."""
        topics = [{"name": name, "count": total, "assignments": None}]
        response: CreatePartitionsResponse = await self._ask(
            ApiKey.CREATE_PARTITIONS,
            CREATE_PARTITIONS_VERSIONS,
            answers="results",
            topics=topics,
            validate_only=validate_only,
        )
        for result in response.results:
            raise_for(result.error_code, result.error_message, about=f"topic {name!r}", topic=name)

    async def _with_numbers(self, specs: Sequence[TopicSpec]) -> Sequence[TopicSpec]:
        """The specs, with the broker's own default numbers where it cannot fill them in itself."""
        if all(spec.assignments or -1 not in (spec.partitions, spec.replication_factor) for spec in specs):
            return specs
        connection = await self._client.controller()
        if connection.version_of(ApiKey.CREATE_TOPICS, CREATE_VERSIONS) >= CREATE_VERSION_WITH_DEFAULTS:
            return specs
        broker_id = await self._client.with_retries(self._choose_broker)
        entries = await ConfigAdmin(self._client).describe(ResourceType.BROKER, str(broker_id))
        values = {entry.name: entry.value for entry in entries}
        partitions = int(values.get("num.partitions") or 1)
        factor = int(values.get("default.replication.factor") or 1)
        return [
            spec
            if spec.assignments
            else replace(
                spec,
                partitions=partitions if spec.partitions == -1 else spec.partitions,
                replication_factor=factor if spec.replication_factor == -1 else spec.replication_factor,
            )
            for spec in specs
        ]

    async def _choose_broker(self) -> int:
        """The controller's id, else that of another broker. Raises LeaderNotAvailable while none is registered, as just
        after the start of a cluster.
        """
        cluster = self._client.cluster
        if cluster.controller_id not in cluster.brokers:
            cluster = await self._client.refresh(())
        if not cluster.brokers:
            raise LeaderNotAvailable("no broker of the cluster is registered at the moment; try again")
        return cluster.controller_id if cluster.controller_id in cluster.brokers else min(cluster.brokers)

    async def _ask(
        self, api: ApiKey, versions: tuple[int, int], *, answers: str, **fields: Any
    ) -> AnyMessage:
        """Send a change of topics to the controller. Creation is not idempotent, so only a moved one is asked again."""
        timeout_ms = self._client.request_timeout_ms
        answer = await self._client.ask_controller(
            api, versions, answers=answers, timeout=timeout_ms, **fields
        )
        self._client.invalidate()
        return answer
