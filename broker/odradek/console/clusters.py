"""The clusters of a console: each has a client, facts, tasks and slots of its own, so none holds up another.

The overview of all waits for each only a moment. A cluster that does not answer in it is shown as it was seen last.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from odradek.client.admin.health import BrokerStatus, ClusterHealth
from odradek.client.admin.partition_states import Problem
from odradek.client.client import Client
from odradek.console.acting import Actions
from odradek.console.administration import AdministrationFacts
from odradek.console.cluster_facts import ConsoleFacts
from odradek.console.documents import Document
from odradek.console.reading import ViewerSlots
from odradek.console.shared_facts import Known
from odradek.console.showing import RecordShowing
from odradek.foundation.console_limits import (
    CONSOLE_CHANGES_MAX,
    CONSOLE_CLUSTERS_WAIT_SECONDS,
    CONSOLE_READS_MAX,
    CONSOLE_SEARCHES_MAX,
    CONSOLE_TAILS_MAX,
)
from odradek.foundation.errors import OdradekError
from odradek.foundation.tasks import TaskOwner

# The name of the only cluster, which no page and no address shows.
ONLY = "cluster"


class NoSuchClusterError(OdradekError):
    """The console has no cluster of this name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSource:
    """A cluster as the command names it. `new_client` makes a client within the loop.

    `connection` are the words that name the cluster in a command line.
    """

    new_client: Callable[[], Client]
    bootstrap: str
    name: str = ONLY
    security_protocol: str = "PLAINTEXT"
    connection: Sequence[str] = ()
    showing: RecordShowing = field(default_factory=RecordShowing)
    """How its records are shown."""


class ClusterSlots:
    """How much all viewers of a cluster may read and change at a time."""

    def __init__(self) -> None:
        self.reads = ViewerSlots(CONSOLE_READS_MAX, "pages of records")
        self.searches = ViewerSlots(CONSOLE_SEARCHES_MAX, "searches")
        self.tails = ViewerSlots(CONSOLE_TAILS_MAX, "live tails")
        self.changes = ViewerSlots(CONSOLE_CHANGES_MAX, "changes")


class ConsoleCluster:
    """One cluster, as viewers with one login see it. It is closed with all that it asks and reads.

    `client` and `slots` are those of a viewer's own login; without them they are the console's.
    """

    def __init__(
        self, source: ClusterSource, *, client: Client | None = None, slots: ClusterSlots | None = None
    ) -> None:
        self.source = source
        self.slots = slots or ClusterSlots()
        self.client = client = client or source.new_client()
        self.showing = source.showing
        self.facts = ConsoleFacts(
            client, bootstrap=source.bootstrap, security_protocol=source.security_protocol
        )
        self.administration = AdministrationFacts(client)
        self.actions = Actions(client, connection=source.connection, changed=self.facts.forget)
        self.tasks = TaskOwner(f"console of {source.name}")
        self._seen: Known[ClusterHealth] | None = None
        self._failure: Exception | None = None

    @property
    def name(self) -> str:
        return self.source.name

    async def look(self) -> Document:
        """A row of the overview of all clusters: as it is now, or as it was last where it does not answer at once."""
        try:
            async with asyncio.timeout(CONSOLE_CLUSTERS_WAIT_SECONDS) as limit:
                self._seen = await self.facts.health.get()
                self._failure = None
        except (OdradekError, OSError) as failure:
            # The end of this wait is none of the cluster: its question continues.
            if not limit.expired():
                self._failure = failure
        return cluster_row(self.source, self._seen, self._failure)

    async def close(self) -> None:
        """End what is asked, read and changed."""
        await self.tasks.close()
        await self.facts.close()
        await self.administration.close()
        await self.client.close()


def find_cluster(clusters: Iterable[ConsoleCluster], name: str | None) -> ConsoleCluster:
    """The cluster of this name; without a name the only one. Raises NoSuchClusterError."""
    known = {one.name: one for one in clusters}
    if name is None and len(known) == 1:
        return next(iter(known.values()))
    if name not in known:
        what = "name a cluster" if name is None else f"there is no cluster {name!r}"
        raise NoSuchClusterError(f"{what}; this console has {', '.join(known)}")
    return known[name]


async def look_at_all(clusters: Iterable[ConsoleCluster]) -> list[Document]:
    """The rows of the overview of all clusters."""
    return await asyncio.gather(*(one.look() for one in clusters))


def cluster_row(
    source: ClusterSource, seen: Known[ClusterHealth] | None, failure: Exception | None
) -> Document:
    """One cluster in the overview. Without an answer it has only its name, and why there is none."""
    row: Document = {
        "name": source.name,
        "bootstrap": source.bootstrap,
        "error": None if failure is None else str(failure) or type(failure).__name__,
        "asked_ms": None if seen is None else seen.asked_ms,
        "verdict": None,
    }
    if seen is None:
        return row
    health, problems = seen.value, seen.value.problems
    return {
        **row,
        "verdict": health.verdict.name.lower(),
        "brokers": len(health.brokers),
        "live": sum(one.status is BrokerStatus.LIVE for one in health.brokers),
        "topics": health.topics,
        "partitions": health.partitions,
        "offline": problems.get(Problem.OFFLINE, 0) + problems.get(Problem.LEADERLESS, 0),
        "under_replicated": problems.get(Problem.UNDER_REPLICATED, 0),
        "groups": sum(health.groups.values()),
    }
