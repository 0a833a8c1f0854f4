"""Rounds over the due resources of a namespace: all that is alike for Topics, Users and ConsumerGroups.

Resources are read, grouped by Cluster, and worked on for all Clusters together. Each resource takes rounds: observe,
decide, take the steps, observe again. A decision without steps ends them, and its status is written. What goes wrong
with one resource is that resource's failure alone.

A kind's own functions (`ReconciledKind`) observe, decide and change the brokers.

Of resources that name the same thing the oldest owns it, or the lower uid within one second. Each Cluster's brokers are
connected once for a batch, and no Cluster delays another.

What goes with its resource is recorded (`declared`), and deleted on the brokers when the resource is not there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from odradek.client.client import Client
from odradek.foundation.errors import OdradekError
from odradek_operator.foundation.keys import Key
from odradek_operator.gateways.brokers import BrokerClients
from odradek_operator.gateways.kubernetes import CLUSTERS, Api, Json, KubernetesError, NotFound, metadata
from odradek_operator.reconcilers.addresses import Bootstrap
from odradek_operator.reconcilers.batch_reconciler import Batch, BatchReconciler, Outcome, Outcomes
from odradek_operator.reconcilers.broker_failures import is_unreachable
from odradek_operator.reconcilers.decisions import (
    Reachability,
    RemoveFinalizer,
    WorkT,
)
from odradek_operator.reconcilers.declared import THING_FIELDS, DeclaredThing, find_records
from odradek_operator.reconcilers.reconciler import (
    Environment,
    is_deleted,
    key_of,
    remove_finalizer,
    status_of,
)
from odradek_operator.reconcilers.record_keeping import KnownEntries, RecordKeeper
from odradek_operator.resources.conditions import ready_condition
from odradek_operator.resources.structure import InvalidResource

BatchT = TypeVar("BatchT")

# Resources that a run works on at the same time. The gateway has a bound for the process besides.
RESOURCES_AT_ONCE_MAX: Final = 16
INVALID_AGAIN_SECONDS: Final = 300.0


@dataclass(frozen=True, slots=True)
class ClusterAbsence:
    """Why a cluster cannot be reached, and what to do about it."""

    reachability: Reachability
    problem: str


async def for_each_cluster(
    works: Mapping[str, Sequence[BatchT]], on_cluster: Callable[[str, Sequence[BatchT]], Awaitable[None]]
) -> None:
    """Work on all clusters together. A failure of one does not stop the others, and is raised at the end."""
    ends = await asyncio.gather(
        *(on_cluster(cluster, some) for cluster, some in works.items()), return_exceptions=True
    )
    for end in ends:
        if isinstance(end, BaseException):
            raise end


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """The Clusters of a namespace and their brokers; `kind` is the kind of the resources, for messages."""

    environment: Environment
    namespace: str
    kind: str
    brokers: BrokerClients
    bootstrap: Bootstrap

    async def ask(
        self, cluster: str, work: Callable[[Client, Json], Awaitable[None]]
    ) -> ClusterAbsence | None:
        """Call `work` with a client of the brokers and the Cluster's body; the answer is why that was not possible.

        An error of the whole cluster is an absence too, so that the status of each resource shows it.
        """
        body = await self.environment.kubernetes.get(CLUSTERS, self.namespace, cluster)
        if body is None or is_deleted(body):
            return ClusterAbsence(
                Reachability.GONE,
                f"there is no Cluster {cluster} in the namespace {self.namespace}; make it, or delete this {self.kind}",
            )
        bootstrap = self.bootstrap(body)
        try:
            is_secured = (body.get("spec") or {}).get("internalListener") is not None
            async with self.brokers.connect_client(bootstrap, is_secured=is_secured) as client:
                await work(client, body)
        except OdradekError as failure:
            what = "does not answer" if is_unreachable(failure) else "refuses what the operator asks"
            problem = f"the Cluster {cluster} {what} at {bootstrap}: {failure}; it is tried again"
            return ClusterAbsence(Reachability.UNREACHABLE, problem)
        return None


class RemoveThings(Protocol):
    """Deletes the things of resources that are gone."""

    async def __call__(
        self, client: Client, entries: Sequence[DeclaredThing], *, cluster: Json, clusters: ClusterAccess
    ) -> Mapping[str, str]:
        """Why some of them cannot be deleted yet, by uid. Raises OdradekError."""


@dataclass(frozen=True, slots=True)
class ReconciledKind(Generic[WorkT]):
    """The functions that are a kind's own."""

    api: Api
    status: type[object]
    rounds_max: int
    read: Callable[[Json, datetime], WorkT]
    """The resource as it was read, and the time. Raises InvalidResource."""
    get_name: Callable[[WorkT], str]
    """The name of the thing on the brokers."""
    get_id: Callable[[WorkT], str | None]
    """The id that tells the thing from others of its name; None until the resource owns it."""
    remove: RemoveThings
    decide: Callable[[Any, Any], Any]
    """The decision from what is desired and what was observed."""
    run_rounds: Callable[[Rounds[WorkT], Sequence[WorkT], Client, Json], Awaitable[None]]
    """Takes the rounds of these resources, which name the Cluster of this body. Raises OdradekError."""
    take_step: Callable[[Rounds[WorkT], WorkT, Any], Awaitable[bool]]
    """Takes a step that only this kind has; False when it was refused and the decision is void."""


def make_reconciler(
    environment: Environment, kind: ReconciledKind[WorkT], *, brokers: BrokerClients, bootstrap: Bootstrap
) -> BatchReconciler:
    """The reconciler of all resources of a kind. `bootstrap` gives the address of a Cluster's brokers."""

    known = KnownEntries()

    async def run_batch(batch: Batch) -> Outcomes:
        clusters = ClusterAccess(environment, batch.namespace, kind.api.kind, brokers, bootstrap)
        return await Rounds(kind, clusters, batch, known).reconcile()

    async def find_owing(key: Key) -> Sequence[str]:
        found = await find_records(environment.kubernetes, key.namespace, kind.api, key.name)
        owing = {record.cluster for record in found} | known.find_clusters(key.namespace, key.name)
        return sorted(owing)

    return BatchReconciler(environment, kind.api, run_batch, find_owing)


class Rounds(Generic[WorkT]):
    """The rounds of one batch."""

    def __init__(
        self, kind: ReconciledKind[WorkT], clusters: ClusterAccess, batch: Batch, known: KnownEntries
    ) -> None:
        self.kind = kind
        self._known = known
        self.clusters = clusters
        self.environment = clusters.environment
        self.namespace = clusters.namespace
        self._batch = batch
        self._claims = Claims(batch.bodies, field=THING_FIELDS[kind.api.kind])
        self._turns = asyncio.Semaphore(RESOURCES_AT_ONCE_MAX)
        self._outcomes: list[Outcome] = []
        self._settled: list[Key] = []
        self._failures: dict[Key, Exception] = {}

    # --- all resources ------------------------------------------------------------------------------------------------

    async def reconcile(self) -> Outcomes:
        """Reconcile the batch."""
        works: dict[str, list[WorkT]] = {self._batch.cluster: []}
        invalid: list[tuple[Json, InvalidResource]] = []
        for body in self._batch.due:
            try:
                work = self.kind.read(body, self.environment.now())
            except InvalidResource as problem:
                invalid.append((body, problem))
                continue
            works.setdefault(work.desired.spec.cluster, []).append(work)
        await asyncio.gather(*(self._report_invalid(body, problem) for body, problem in invalid))
        await for_each_cluster(works, self._reconcile_on_cluster)
        return Outcomes(self._outcomes, self._settled, self._failures)

    async def _reconcile_on_cluster(self, cluster: str, works: Sequence[WorkT]) -> None:
        for work in works:
            older = self._claims.find_owner(work.desired.uid, cluster, self.kind.get_name(work))
            work.actual = replace(work.actual, older=older)
        keeper = RecordKeeper(
            self.environment,
            self._batch,
            cluster,
            api=self.kind.api,
            known=self._known,
            get_name=self.kind.get_name,
            get_id=self.kind.get_id,
            fail=self.fail,
        )
        try:
            await keeper.read()
        except KubernetesError as failure:
            for work in works:
                self.fail(work, failure)
            return

        async def run_on_brokers(client: Client, body: Json) -> None:
            await keeper.declare([work for work in works if work.is_open], body)
            await keeper.settle(partial(self.kind.remove, client, cluster=body, clusters=self.clusters), body)
            left = [work for work in works if work.is_open]
            if left:
                await self.kind.run_rounds(self, left, client, body)
                await keeper.declare([work for work in left if work.key not in self._failures], body)
            self._settled += keeper.settled

        absence = await self.clusters.ask(cluster, run_on_brokers)
        if absence is None:
            return
        await keeper.wait(absence.reachability)
        left = [work for work in works if work.is_open]
        for work in left:
            work.actual = replace(
                work.actual, reachability=absence.reachability, problem=absence.problem, failure=None
            )
        await self.run_each(left, self.take_rounds)

    async def run_each(self, works: Iterable[WorkT], act: Callable[[WorkT], Awaitable[None]]) -> None:
        """Act on all, some at a time. What Kubernetes refuses for one fails that one alone."""

        async def run_one(work: WorkT) -> None:
            async with self._turns:
                try:
                    await act(work)
                except NotFound:
                    work.is_open = False  # It is gone: the next run forgets it.
                except KubernetesError as failure:
                    self.fail(work, failure)

        await asyncio.gather(*(run_one(work) for work in works))

    # --- one resource -------------------------------------------------------------------------------------------------

    def decide(self, work: WorkT) -> None:
        """Set the work's decision from what is desired and what was observed."""
        work.decision = self.kind.decide(work.desired, work.actual)

    async def take_rounds(self, work: WorkT) -> None:
        """Take the rounds of one resource by itself. Raises KubernetesError."""
        for _ in range(self.kind.rounds_max):
            self.decide(work)
            if not work.decision.actions:
                await self.finish_work(work)
                return
            await self._take_steps(work)
            if not work.is_open:
                return
        self.fail_restless(work)

    async def _take_steps(self, work: WorkT) -> None:
        unreported = work.decision.events
        for step in work.decision.actions:
            match step:
                case RemoveFinalizer():
                    # Events come first: the resource may be gone afterwards.
                    await self.report_events(work, unreported)
                    unreported = ()
                    await self.remove_finalizer(work)
                case _ if not await self.kind.take_step(self, work, step):
                    return
        await self.report_events(work, unreported)

    async def remove_finalizer(self, work: WorkT) -> None:
        """Remove the finalizer. A resource that was deleted is gone then, and its work is closed."""
        await remove_finalizer(self.environment.kubernetes, self.kind.api, work.body)
        work.desired = replace(work.desired, has_finalizer=False)
        if work.desired.is_deleted:
            work.is_open = False
            return
        found = await self.environment.kubernetes.get(self.kind.api, self.namespace, work.key.name)
        work.body = found or work.body

    async def report_events(self, work: WorkT, events: Iterable[Any] | None = None) -> None:
        """Put events on the resource: those of its decision, unless others are given."""
        for event in work.decision.events if events is None else events:
            await self.environment.report_event(
                work.body, event.reason, event.message, warning=event.is_warning
            )

    async def finish_work(self, work: WorkT) -> None:
        """Write the status of a decision without steps, and close the work. Raises KubernetesError."""
        work.is_open = False
        decision = work.decision
        if decision.status is not None:
            written = await self.environment.write_status(work.body, decision.status, decision.conditions)
            work.body = written or work.body
            await self.report_events(work)
        # The status may have been written over a newer spec than the one decided on: its event must not be ignored.
        is_newer = int(metadata(work.body).get("generation") or 0) != work.desired.generation
        version = "" if is_newer else str(metadata(work.body)["resourceVersion"])
        self._outcomes.append(Outcome(work.key, version, decision.again_seconds))

    def fail(self, work: WorkT, failure: Exception) -> None:
        """Close the work; the resource is tried again soon."""
        work.is_open = False
        self._failures[work.key] = failure

    def fail_restless(self, work: WorkT) -> None:
        """Close a work whose decisions never end."""
        self.fail(
            work, RuntimeError(f"{work.key} still has steps to take after {self.kind.rounds_max} rounds")
        )

    async def _report_invalid(self, body: Json, problem: InvalidResource) -> None:
        async with self._turns:
            try:
                outcome = await self._finish_invalid(body, problem)
            except NotFound:
                return
            except KubernetesError as failure:
                self._failures[key_of(body)] = failure
                return
        if outcome is not None:
            self._outcomes.append(outcome)

    async def _finish_invalid(self, body: Json, problem: InvalidResource) -> Outcome | None:
        if is_deleted(body):
            # What it owned cannot be read from it, and stays.
            await remove_finalizer(self.environment.kubernetes, self.kind.api, body)
            return None
        stated = [ready_condition(False, "InvalidSpec", f"{problem}; correct the resource")]
        written = await self.environment.write_status(body, status_of(body, self.kind.status), stated)
        if written is not None:
            await self.environment.report_event(body, "InvalidSpec", str(problem), warning=True)
        version = str(metadata(written or body)["resourceVersion"])
        return Outcome(key_of(body), version, INVALID_AGAIN_SECONDS)


class Claim(NamedTuple):
    """A resource that names a thing. Sorts by age, then uid."""

    created: str
    uid: str
    name: str
    is_deleted: bool


class Claims:
    """The resources of one kind and namespace by the thing that they name.

    The thing's name is in `field` of the spec; without it the resource's name is the thing's.
    """

    def __init__(self, bodies: Iterable[Json], *, field: str) -> None:
        self._claims: dict[tuple[str, str], list[Claim]] = {}
        for body in bodies:
            meta, spec = metadata(body), body.get("spec") or {}
            claim = Claim(
                str(meta.get("creationTimestamp", "")), str(meta["uid"]), str(meta["name"]), is_deleted(body)
            )
            thing = str(spec.get("cluster")), str(spec.get(field) or meta["name"])
            self._claims.setdefault(thing, []).append(claim)
        for rivals in self._claims.values():
            rivals.sort()

    def find_owner(self, uid: str, cluster: str, thing: str) -> str | None:
        """The name of the resource that owns it, and why, where that is not `uid`.

        A resource that is being deleted owns it until it is gone. Ages are in whole seconds. Of two resources made in
        one second the lower uid owns it, so that the choice stays.
        """
        rivals = self._claims.get((cluster, thing))
        if not rivals or rivals[0].uid == uid:
            return None
        holder = rivals[0]
        mine = next((claim for claim in rivals if claim.uid == uid), None)
        if mine is not None and mine.created == holder.created:
            return f"{holder.name}, which was made in the same second and has the lower uid"
        return f"{holder.name}, which is older"
