"""Queries, the streams that fill a table batch by batch: which driver each has, and how far it is.

Every record repeats the queries of the one before it. So a driver that starts, or wakes up after another one took its
place, needs the newest record alone. A driver that takes over a query raises its epoch, as a producer does in Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from odradek_pipeline.errors import FencedError


class QueryState(NamedTuple):
    """The last batch of a query, and the driver that committed it. Batches count from 1."""

    driver: str
    epoch: int
    batch: int

    def as_json(self) -> dict[str, Any]:
        return {"driver": self.driver, "epoch": self.epoch, "batch": self.batch}

    @staticmethod
    def from_json(row: Mapping[str, Any]) -> QueryState:
        return QueryState(str(row["driver"]), int(row["epoch"]), int(row["batch"]))


Queries = Mapping[str, QueryState]


def take_over(queries: Queries, query: str, driver: str) -> QueryState:
    """The state with which `driver` begins: the epoch above the last one."""
    last = queries.get(query)
    return QueryState(driver, 1, 0) if last is None else QueryState(driver, last.epoch + 1, last.batch)


def next_batch(queries: Queries, query: str, mine: QueryState) -> QueryState:
    """The state of the batch that follows what is committed. Raises FencedError when another driver took over."""
    require_driver(queries, query, mine)
    last = queries.get(query)
    return mine._replace(batch=1 if last is None else last.batch + 1)


def require_driver(queries: Queries, query: str, mine: QueryState) -> None:
    """Raises FencedError when a batch of another driver shows that it took the place of `mine`."""
    last = queries.get(query)
    if last is None or last.driver == mine.driver or last.epoch < mine.epoch:
        return
    raise FencedError(
        f"fenced: driver {last.driver} took over query {query!r} and committed its batch {last.batch}. This driver, "
        f"{mine.driver}, changed nothing since then. Let one driver run, or give each a name by --query"
    )


def require_batch_free(theirs: Queries, query: str, mine: QueryState) -> None:
    """Raises FencedError unless the batch of `mine` can follow a record that repeats `theirs`."""
    require_driver(theirs, query, mine)
    last = theirs.get(query)
    if last is not None and last.batch >= mine.batch:
        raise FencedError(
            f"fenced: batch {mine.batch} of query {query!r} is committed already. This run changed nothing"
        )


def merge_queries(one: Queries, other: Queries) -> dict[str, QueryState]:
    """The later state of each query, of two records that were committed beside each other."""
    return {
        name: max(
            (queries[name] for queries in (one, other) if name in queries),
            key=lambda state: (state.epoch, state.batch),
        )
        for name in sorted({*one, *other})
    }
