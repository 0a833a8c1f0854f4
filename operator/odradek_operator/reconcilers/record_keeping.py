"""The record of what goes with its resource, in one batch: what is added to it, and what of it is carried out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Generic

from odradek_operator.foundation.keys import Key
from odradek_operator.gateways.kubernetes import Api, Json, KubernetesError, metadata
from odradek_operator.reconcilers.batch_reconciler import Batch
from odradek_operator.reconcilers.decisions import (
    OWED_AGAIN_SECONDS,
    UNREACHABLE_AGAIN_SECONDS,
    Reachability,
    WorkT,
)
from odradek_operator.reconcilers.declared import (
    Absent,
    DeclaredRecord,
    DeclaredThing,
    RecordFull,
    change_record,
    find_absent,
    find_claimants,
    format_entries,
    read_record,
)
from odradek_operator.reconcilers.reconciler import Environment, key_of
from odradek_operator.resources.deletion import DeletionPolicy


class KnownEntries:
    """The entries of a kind's records as this process has seen them last.

    A record can be deleted or edited by hand. Without this, what was declared in it would stay on the brokers.
    """

    def __init__(self) -> None:
        self._by_cluster: dict[tuple[str, str], Mapping[str, DeclaredThing]] = {}

    def note(self, record: DeclaredRecord) -> None:
        """Keep what is recorded now."""
        if record.entries:
            self._by_cluster[record.namespace, record.cluster] = record.entries
        else:
            self._by_cluster.pop((record.namespace, record.cluster), None)

    def find_clusters(self, namespace: str, resource: str) -> set[str]:
        """The Clusters with an entry for a resource of this name."""
        return {
            cluster
            for (of_namespace, cluster), entries in self._by_cluster.items()
            if of_namespace == namespace and any(one.resource == resource for one in entries.values())
        }

    def find_lost(self, record: DeclaredRecord) -> dict[str, DeclaredThing]:
        """The entries that were taken out of a record by hand."""
        known = self._by_cluster.get((record.namespace, record.cluster), {})
        return {uid: entry for uid, entry in known.items() if uid not in record.entries}


class RecordKeeper(Generic[WorkT]):
    """Keeps the record of one kind and Cluster in a batch. `fail` closes a work that cannot be recorded.

    `settled` are resources that are gone, and have nothing left on the brokers.
    """

    def __init__(
        self,
        environment: Environment,
        batch: Batch,
        cluster: str,
        *,
        api: Api,
        known: KnownEntries,
        get_name: Callable[[WorkT], str],
        get_id: Callable[[WorkT], str | None],
        fail: Callable[[WorkT, Exception], None],
    ) -> None:
        self._environment = environment
        self._kubernetes = environment.kubernetes
        self._batch = batch
        self._api = api
        self._known = known
        self._lost: Mapping[str, DeclaredThing] = {}
        self._get_name = get_name
        self._get_id = get_id
        self._fail = fail
        self._record = DeclaredRecord(namespace=batch.namespace, cluster=cluster, api=api)
        self.settled: list[Key] = []

    async def read(self) -> None:
        """Read the record. Raises KubernetesError."""
        record = self._record
        self._record = await read_record(self._kubernetes, record.namespace, record.cluster, record.api)
        self._lost = self._known.find_lost(self._record)

    async def declare(self, works: Sequence[WorkT], cluster: Json) -> None:
        """Record what goes with these resources, and forget what stays. What Kubernetes refuses fails them."""
        cluster_uid = str(metadata(cluster)["uid"])
        # Those of an earlier Cluster of this name went with its volumes.
        changes: dict[str, DeclaredThing | None] = {
            uid: entry for uid, entry in self._lost.items() if entry.cluster_uid == cluster_uid
        }
        self._lost = {}
        for work in works:
            changes |= self._plan_entry(work, cluster_uid)
        added = [work for work in works if changes.get(work.desired.uid) is not None]
        try:
            if added and not self._record.has_room_for(changes):
                for work in added:
                    del changes[work.desired.uid]
                    self._fail(work, RecordFull(self._record))
            self._record = await change_record(self._kubernetes, self._record, changes, cluster=cluster)
            self._known.note(self._record)
        except KubernetesError as failure:
            for work in added:
                self._fail(work, failure)

    def _plan_entry(self, work: WorkT, cluster_uid: str) -> dict[str, DeclaredThing | None]:
        desired = work.desired
        if desired.is_deleted and not desired.has_finalizer:
            return {}  # What it had is owed by now.
        is_kept = desired.spec.deletion_policy is DeletionPolicy.RETAIN or desired.is_paused
        if is_kept or work.actual.older is not None:
            return {desired.uid: None} if desired.uid in self._record.entries else {}
        id = self._get_id(work)
        if id is None:
            return {}
        entry = DeclaredThing(
            uid=desired.uid,
            resource=desired.name,
            thing=self._get_name(work),
            cluster_uid=cluster_uid,
            id=id,
        )
        return {} if self._record.entries.get(desired.uid) == entry else {desired.uid: entry}

    def _find_absent(self, cluster_uid: str) -> Absent:
        return find_absent(self._record, self._batch.bodies, cluster_uid=cluster_uid)

    async def settle(
        self, remove: Callable[[Sequence[DeclaredThing]], Awaitable[Mapping[str, str]]], cluster: Json
    ) -> None:
        """Delete what has no resource any more. `remove` answers why some cannot be deleted yet, by uid.

        Raises OdradekError, KubernetesError.
        """
        uid, api = str(metadata(cluster)["uid"]), self._api
        bodies, found = self._batch.bodies, self._find_absent(uid)
        if found.owed:
            # The batch's list is older than the record: of what another operator has recorded since, it knows nothing.
            bodies = await self._kubernetes.list(api, self._batch.namespace)
            found = find_absent(self._record, bodies, cluster_uid=uid)
        if not found.owed and not found.superseded:
            return
        problems: Mapping[str, str] = {}
        if found.owed:
            problems = await remove(found.owed)
        gone = [one for one in found.owed if one.uid not in problems]
        changes = {one.uid: None for one in (*gone, *found.superseded)}
        # Events come first: without its entry nothing says any more that it was deleted.
        if gone:
            await self._report(cluster, "Deleted", f"{format_entries(api, gone)}: gone with the resource")
        for entry in found.superseded:
            if entry.cluster_uid != metadata(cluster)["uid"]:
                continue  # It was applied again, with its Cluster.
            message = f"the {format_entries(api, [entry])} stays: another {api.kind} names it too"
            await self._report(cluster, "Kept", message)
            # It was refused because of this one.
            for body in find_claimants(self._record, bodies, entry):
                self._environment.mark_stale(key_of(body))
        for entry in found.owed:
            if entry.uid in problems:
                message = f"the {format_entries(api, [entry])} cannot be deleted yet: {problems[entry.uid]}"
                await self._report(cluster, "DeletionWaits", message, warning=True)
        self._wake([one for one in found.owed if one.uid in problems], after_seconds=OWED_AGAIN_SECONDS)
        self._record = await change_record(self._kubernetes, self._record, changes, cluster=None)
        self._known.note(self._record)
        settled = (*gone, *found.superseded)
        self.settled += [Key(api.kind, self._batch.namespace, one.resource) for one in settled]

    async def wait(self, reachability: Reachability) -> None:
        """Have what is owed looked at again; for a Cluster that is gone, note it. Raises KubernetesError."""
        gone = self._batch.gone
        if reachability is not Reachability.GONE:
            owed = [one for one in self._absent() if gone in (None, one.resource)]
            self._wake(owed, after_seconds=UNREACHABLE_AGAIN_SECONDS)
            return
        changes = {one.uid: replace(one, was_deleted=True) for one in self._absent() if one.resource == gone}
        await change_record(self._kubernetes, self._record, changes, cluster=None)

    def _absent(self) -> list[DeclaredThing]:
        entries = {**self._record.entries, **self._lost}
        found = find_absent(replace(self._record, entries=entries), self._batch.bodies, cluster_uid="")
        return [*found.owed, *found.superseded, *found.missing]

    def _wake(self, entries: Sequence[DeclaredThing], *, after_seconds: float) -> None:
        api, namespace = self._api, self._batch.namespace
        for entry in entries:
            self._environment.wake(Key(api.kind, namespace, entry.resource), after_seconds=after_seconds)

    async def _report(self, cluster: Json, reason: str, message: str, *, warning: bool = False) -> None:
        reason = f"{self._api.kind}{reason}"
        await self._environment.report_event(cluster, reason, message, warning=warning)
