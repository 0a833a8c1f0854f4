"""Prints a `ClusterHealth` for `odradek status`: lines and tables for people, one document for programs."""

from __future__ import annotations

from collections.abc import Sequence

from odradek.cli.brokers.moves import MOVES_HEADERS, move_documents, move_rows
from odradek.cli.shared.disk_words import directory_document, disk_cell
from odradek.cli.shared.output import bad, count, good, in_color, print_table, render_table, warning
from odradek.cli.shared.partition_words import problem_words
from odradek.client.admin.health import BrokerHealth, BrokerStatus, ClusterHealth, Verdict, directory_status
from odradek.client.admin.partition_states import PartitionState, Problem

_VERDICTS = {
    Verdict.HEALTHY: good("healthy"),
    Verdict.DEGRADED: warning("degraded"),
    Verdict.UNHEALTHY: bad("unhealthy"),
}


def print_health(health: ClusterHealth, *, partitions_max: int | None) -> None:
    """The verdict, the brokers, and the partitions that have a problem: at most so many of them."""
    print(f"cluster     {health.cluster_id}: {in_color(_VERDICTS[health.verdict])}")
    print(f"controller  {_controller(health)}")
    print(f"brokers     {_brokers(health.brokers)}")
    print(f"topics      {health.topics} with {count(health.partitions, 'partition')}")
    if health.groups:
        print("groups      " + ", ".join(f"{number} {state}" for state, number in health.groups.items()))
    for finding in health.findings:
        mark = {Verdict.UNHEALTHY: bad("!!"), Verdict.DEGRADED: warning("!")}.get(finding.verdict, "-")
        print(f"{in_color(mark)} {finding.words}")
    print()
    print_table(
        _BROKER_HEADERS, [_broker_row(broker) for broker in health.brokers], empty="no broker is known"
    )
    if health.moves:
        print()
        _print_some(MOVES_HEADERS, move_rows(health.moves), partitions_max)
    if health.troubled:
        print()
        _print_some(_PARTITION_HEADERS, [_partition_row(one) for one in _worst(health)], partitions_max)


def _print_some(headers: Sequence[str], rows: Sequence[Sequence[object]], number_max: int | None) -> None:
    shown = rows if number_max is None else rows[:number_max]
    print(render_table(headers, shown))
    if len(shown) < len(rows):
        print(f"… and {len(rows) - len(shown)} more; --all shows them")


def _controller(health: ClusterHealth) -> str:
    if health.controller_id is None:
        return in_color(bad("none"))
    return (
        f"reached through broker {health.controller_id}" if health.is_forwarded else str(health.controller_id)
    )


def _brokers(brokers: Sequence[BrokerHealth]) -> str:
    live = sum(broker.status is BrokerStatus.LIVE for broker in brokers)
    parts = [f"{live} live"]
    for status, mark in ((BrokerStatus.SILENT, bad), (BrokerStatus.GONE, bad)):
        ids = ", ".join(str(broker.id) for broker in brokers if broker.status is status)
        if ids:
            parts.append(in_color(mark(f"{status.value}: {ids}")))
    return ", ".join(parts)


_BROKER_HEADERS = ("BROKER", "ADDRESS", "RACK", "STATE", "REPLICAS", "LEADS", "DISK")


def _broker_row(broker: BrokerHealth) -> Sequence[object]:
    state = broker.status.value if broker.status is BrokerStatus.LIVE else bad(broker.status.value)
    return (
        broker.id,
        broker.address,
        broker.rack,
        state,
        broker.replicas,
        broker.leaders,
        disk_cell(broker.directories),
    )


_PARTITION_HEADERS = ("TOPIC", "PARTITION", "LEADER", "REPLICAS", "IN SYNC", "MIN", "PROBLEMS")


def _worst(health: ClusterHealth) -> list[PartitionState]:
    order = {problem: number for number, problem in enumerate(Problem)}
    return sorted(health.troubled, key=lambda one: (order[one.problems[0]], one.where))


def _partition_row(state: PartitionState) -> Sequence[object]:
    return (
        state.where.topic,
        state.where.partition,
        state.info.leader if state.has_leader else bad("none"),
        state.info.replicas,
        state.info.in_sync_replicas,
        state.min_in_sync,
        problem_words(state.problems),
    )


# --- for programs ------------------------------------------------------------------------------------------------


def health_document(health: ClusterHealth) -> dict[str, object]:
    """The whole health as JSON."""
    return {
        "cluster_id": health.cluster_id,
        "health": health.verdict.name.lower(),
        "controller": health.controller_id,
        "is_controller_behind_broker": health.is_forwarded,
        "findings": [
            {"health": finding.verdict.name.lower(), "message": finding.words} for finding in health.findings
        ],
        "brokers": [_broker_document(broker) for broker in health.brokers],
        "topics": health.topics,
        "partitions": health.partitions,
        "problems": {problem.value: number for problem, number in health.problems.items()},
        "problem_partitions": [
            {
                "topic": state.where.topic,
                "partition": state.where.partition,
                "leader": state.info.leader,
                "replicas": state.info.replicas,
                "in_sync_replicas": state.info.in_sync_replicas,
                "min_in_sync_replicas": state.min_in_sync,
                "problems": [problem.value for problem in state.problems],
            }
            for state in _worst(health)
        ],
        "moves": None if health.moves is None else move_documents(health.moves),
        "groups": health.groups,
    }


def _broker_document(broker: BrokerHealth) -> dict[str, object]:
    return {
        "id": broker.id,
        "state": broker.status.value,
        "address": broker.address,
        "rack": broker.rack,
        "replicas": broker.replicas,
        "leaders": broker.leaders,
        "error": broker.error,
        "log_directories": [
            directory_document(one) | {"state": directory_status(one).value} for one in broker.directories
        ],
    }
