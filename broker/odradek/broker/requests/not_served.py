"""The APIs of the protocol that no handler serves, and why: one row for each, so that none is forgotten.

`table` has the APIs that are served. A test checks that each `ApiKey` is in exactly one of the two.
ApiVersions lists none of the APIs here. A request for one closes the connection, as Apache Kafka does for an
API that it does not list. `Absence.effect` is what a client's user sees of that.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from odradek.wire.protocol.api import ApiKey


class Absence(NamedTuple):
    """A missing feature: its name, what its users see, and its APIs."""

    feature: str
    effect: str
    apis: tuple[ApiKey, ...]


ABSENCES: Final[tuple[Absence, ...]] = (
    Absence(
        "Administration of KRaft (KIP-853)",
        "Tools such as `kafka-metadata-quorum` fail: the registry is SQLite or ZooKeeper.",
        (
            ApiKey.DESCRIBE_QUORUM,
            ApiKey.ADD_RAFT_VOTER,
            ApiKey.REMOVE_RAFT_VOTER,
        ),
    ),
    Absence(
        "Requests between Kafka's own brokers and controllers",
        "No client sends them. An Apache Kafka broker cannot join an Odradek cluster, nor the reverse.",
        (
            ApiKey.LEADER_AND_ISR,
            ApiKey.STOP_REPLICA,
            ApiKey.UPDATE_METADATA,
            ApiKey.CONTROLLED_SHUTDOWN,
            ApiKey.VOTE,
            ApiKey.BEGIN_QUORUM_EPOCH,
            ApiKey.END_QUORUM_EPOCH,
            ApiKey.ENVELOPE,
            ApiKey.FETCH_SNAPSHOT,
            ApiKey.BROKER_REGISTRATION,
            ApiKey.BROKER_HEARTBEAT,
            ApiKey.CONTROLLER_REGISTRATION,
            ApiKey.ASSIGN_REPLICAS_TO_DIRS,
            ApiKey.UPDATE_RAFT_VOTER,
        ),
    ),
)

EFFECTS: Final[dict[ApiKey, Absence]] = {api: absence for absence in ABSENCES for api in absence.apis}
