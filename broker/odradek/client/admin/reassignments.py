"""Partitions that move to other brokers (KIP-455), their throttles (KIP-73), and elections of leaders (KIP-460).

A reassignment continues without the client once the controller has accepted it. `under_way` lists unfinished moves, and
`cancel` cancels them. `plans` decides the moves; `brokers` handles whole brokers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from odradek.client.admin.configs import ConfigAdmin
from odradek.client.admin.plans import Plan
from odradek.client.checked_calls import checking_arguments
from odradek.client.client import Client
from odradek.client.errors import error_for, raise_for
from odradek.client.partition_rows import list_answer_rows, numbers_by_topic, rows_by_topic
from odradek.client.results import AlterOperation, ConfigChange, ResourceType
from odradek.foundation.errors import NotController, OdradekError
from odradek.foundation.ids import TopicPartition
from odradek.wire.protocol.api import ApiKey
from odradek.wire.protocol.errors import code_of

if TYPE_CHECKING:
    from odradek.wire.protocol.messages import AnyMessage
    from odradek.wire.protocol.responses import Response
    from odradek.wire.protocol.responses.cluster import (
        AlterPartitionReassignmentsResponse,
        ElectLeadersResponse,
        ListPartitionReassignmentsResponse,
    )

ALTER_VERSIONS: Final = (0, 1)
LIST_VERSIONS: Final = (0, 0)
ELECT_VERSIONS: Final = (0, 2)
_NOT_CONTROLLER: Final = code_of(NotController)
# A frame of some hundred kilobytes, and a write that delays other requests only briefly.
MOVES_PER_REQUEST_MAX: Final = 1000
SIDES: Final = ("leader", "follower")


@dataclass(frozen=True, slots=True)
class OngoingReassignment:
    """A partition that moves: `replicas` are the old and the new ones together."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas after the move."""
        return tuple(broker for broker in self.replicas if broker not in self.removing)

    @property
    def original(self) -> tuple[int, ...]:
        """The replicas before the move."""
        return tuple(broker for broker in self.replicas if broker not in self.adding)


@checking_arguments()
class ReassignmentAdmin:
    """The admin calls for the replicas and leaders of partitions."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._configs = ConfigAdmin(client)

    # --- moves ---------------------------------------------------------------------------------------------------

    async def assignment(
        self, topics: Collection[str] | None = None
    ) -> dict[TopicPartition, tuple[int, ...]]:
        """The brokers of each partition, after the moves under way. Raises UnknownTopicOrPartition."""
        cluster = await self._client.with_retries(
            lambda: self._client.refresh(None if topics is None else tuple(topics))
        )
        names = cluster.topics if topics is None else topics
        found = {
            TopicPartition(name, partition.partition): partition.replicas
            for name in names
            for partition in cluster.topic(name).partitions
        }
        moving = await self.under_way()
        return {where: moving[where].target if where in moving else found[where] for where in found}

    async def reassign(
        self, moves: Mapping[TopicPartition, Sequence[int] | None], *, may_change_factor: bool = True
    ) -> dict[TopicPartition, OdradekError | None]:
        """Begin to move partitions, or cancel moves (None). Each partition has None or its error. Without
        `may_change_factor` a partition keeps its number of replicas (KIP-860).
        """
        outcome: dict[TopicPartition, OdradekError | None] = {}
        wanted = sorted(moves)
        for start in range(0, len(wanted), MOVES_PER_REQUEST_MAX):
            part = {where: moves[where] for where in wanted[start : start + MOVES_PER_REQUEST_MAX]}
            outcome |= await self._reassign(part, may_change_factor=may_change_factor)
        self._client.invalidate()
        return outcome

    async def _reassign(
        self, moves: Mapping[TopicPartition, Sequence[int] | None], *, may_change_factor: bool
    ) -> dict[TopicPartition, OdradekError | None]:
        rows = (
            (where, {"partition_index": where.partition, "replicas": replicas})
            for where, replicas in moves.items()
        )
        response: AlterPartitionReassignmentsResponse = await self._ask(
            ApiKey.ALTER_PARTITION_REASSIGNMENTS,
            # A broker that does not know the flag would change the number of replicas.
            ALTER_VERSIONS if may_change_factor else (1, 1),
            topics=rows_by_topic(rows),
            allow_replication_factor_change=may_change_factor,
        )
        return {
            where: error_for(row.error_code, row.error_message, about=f"partition {where}")
            for where, row in list_answer_rows(response.responses)
        }

    async def cancel(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, OdradekError | None]:
        """Cancel moves, by default all that are under way. Each partition has None or its error."""
        wanted = await self.under_way() if partitions is None else partitions
        return await self.reassign(dict.fromkeys(wanted))

    async def under_way(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, OngoingReassignment]:
        """The moves under way, of all or of some partitions."""
        response: ListPartitionReassignmentsResponse = await self._ask(
            ApiKey.LIST_PARTITION_REASSIGNMENTS,
            LIST_VERSIONS,
            topics=numbers_by_topic(partitions, partitions="partition_indexes"),
        )
        return {
            where: OngoingReassignment(row.replicas, row.adding_replicas, row.removing_replicas)
            for where, row in list_answer_rows(response.topics)
        }

    # --- throttles -----------------------------------------------------------------------------------------------

    async def throttle(self, plan: Plan, *, bytes_per_second: int) -> None:
        """Limit the bytes per second that each broker sends and fetches for the moves of `plan`. Call it before the
        moves begin, or with another rate while they run. It replaces earlier throttles of these topics' replicas.
        """
        under_way = await self.under_way(plan)
        now = await self.assignment({where.topic for where in plan})
        now |= {where: one.original for where, one in under_way.items()}
        feeding: dict[str, list[str]] = {}
        fetching: dict[str, list[str]] = {}
        brokers: set[int] = set()
        for where, replicas in plan.items():
            coming = set(replicas) - set(now.get(where, ()))
            if not coming:
                continue
            brokers |= {*coming, *now[where]}
            feeding.setdefault(where.topic, []).extend(f"{where.partition}:{one}" for one in now[where])
            fetching.setdefault(where.topic, []).extend(f"{where.partition}:{one}" for one in coming)
        rates = [ConfigChange(f"{side}.replication.throttled.rate", str(bytes_per_second)) for side in SIDES]
        await self._configs.alter_all(ResourceType.BROKER, {str(broker): rates for broker in sorted(brokers)})
        await self._configs.alter_all(
            ResourceType.TOPIC,
            {
                topic: [
                    ConfigChange("leader.replication.throttled.replicas", ",".join(feeding[topic])),
                    ConfigChange(
                        "follower.replication.throttled.replicas", ",".join(sorted(fetching[topic]))
                    ),
                ]
                for topic in feeding
            },
        )

    async def unthrottle(self, *, topics: Iterable[str], brokers: Iterable[int]) -> None:
        """Lift the throttles of these topics' replicas, and those brokers' rates."""
        rates, lists = (
            [
                ConfigChange(f"{side}.replication.throttled.{what}", None, AlterOperation.DELETE)
                for side in SIDES
            ]
            for what in ("rate", "replicas")
        )
        await self._configs.alter_all(ResourceType.TOPIC, dict.fromkeys(topics, lists))
        await self._configs.alter_all(ResourceType.BROKER, {str(broker): rates for broker in brokers})

    # --- leaders -------------------------------------------------------------------------------------------------

    async def elect_leaders(
        self, partitions: Iterable[TopicPartition] | None = None, *, unclean: bool = False
    ) -> dict[TopicPartition, OdradekError | None]:
        """Elect the first replicas again. With `unclean` elect any live replica of a partition without a leader;
        records that it lacks are lost. Each partition has None or its error, as ElectionNotNeeded. For all partitions
        (None) only those that needed an election are returned.
        """
        response: ElectLeadersResponse = await self._ask(
            ApiKey.ELECT_LEADERS,
            (1, 2) if unclean else ELECT_VERSIONS,
            election_type=int(unclean),
            topic_partitions=numbers_by_topic(partitions, topic="topic", partitions="partitions"),
        )
        self._client.invalidate()
        return {
            where: error_for(row.error_code, row.error_message, about=f"partition {where}")
            for topic in response.replica_election_results
            for row in topic.partition_result
            for where in [TopicPartition(topic.topic, row.partition_id)]
        }

    async def _ask(self, api: ApiKey, versions: tuple[int, int], **fields: Any) -> AnyMessage:
        """Send to the controller, and again when it has moved: a repeated request has the same result."""
        timeout_ms = self._client.request_timeout_ms

        async def attempt() -> Response:
            response: Response = await (await self._client.controller()).request(
                api, versions=versions, timeout=timeout_ms, **fields
            )
            code, message = getattr(response, "error_code", 0), getattr(response, "error_message", None)
            if code == _NOT_CONTROLLER:
                raise NotController(message or "the controller moved; try again")
            raise_for(code, message)
            return response

        return await self._client.with_retries(attempt)
