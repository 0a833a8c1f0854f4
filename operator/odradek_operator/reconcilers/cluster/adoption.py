"""A Cluster on volumes, or in a registry, that an earlier one has left: what is in them and has no resource.

What went with its resource is deleted before listeners for clients open. Until then brokers have their own listener
alone, where the Cluster gives them one. What no resource names stays, unless the Cluster asks for its removal, and is
shown in the status.

    Held      brokers serve the operator and each other; something is to be deleted first
    Opening   nothing is left to delete, and brokers restart with all listeners
    Looking   nothing has to be deleted; users without a User are looked for once brokers serve
    Done      it is over, or there was nothing
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from odradek.foundation.errors import OdradekError
from odradek_operator.desired.names import BROKER, ZOOKEEPER
from odradek_operator.desired.security import broker_principal, operator_principal
from odradek_operator.foundation.keys import Key
from odradek_operator.gateways.kubernetes import CONFIG_MAPS, TOPICS, USERS, VOLUME_CLAIMS, Json, metadata
from odradek_operator.reconcilers.cluster.facts import BrokerPod
from odradek_operator.reconcilers.cluster.restart_words import format_names
from odradek_operator.reconcilers.cluster.run import ReconcileRun
from odradek_operator.reconcilers.cluster.settings.live_settings import SettingsFound
from odradek_operator.reconcilers.declared import (
    Absent,
    DeclaredRecord,
    change_record,
    find_absent,
    format_entries,
    list_owners,
    parse_record,
)
from odradek_operator.reconcilers.reconciler import conditions_of
from odradek_operator.resources.adoption import AdoptionState, UnclaimedUsers
from odradek_operator.resources.cluster_status import UNCLAIMED_SHOWN_MAX

# Deletions wake the kind's own reconciler. So often it is looked whether one was missed; sooner while clients wait.
_LOOK_EVERY: Final = timedelta(seconds=60)
_HELD_LOOK_EVERY: Final = timedelta(seconds=5)
_OWN_PREFIX: Final = "User:"


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptionFound:
    """The state of the adoption after a run. `owed` names what is to be deleted on the brokers, and is there yet."""

    state: AdoptionState | None = None
    users: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    owed: str | None = None
    unreachable: str | None = None

    @property
    def is_shut(self) -> bool:
        """Whether clients have no listener yet."""
        return self.state in (AdoptionState.HELD, AdoptionState.OPENING)


class RecordLook(NamedTuple):
    """Records with entries whose resources are not there, in these versions of the records."""

    at: datetime
    versions: tuple[str, ...]
    absent: tuple[tuple[DeclaredRecord, Absent], ...]


@dataclass(slots=True)
class RecordLooks:
    """The last looks at Clusters' records of what goes with its resource. They only save requests."""

    _known: dict[Key, RecordLook] = field(default_factory=dict)

    def forget(self, key: Key) -> None:
        """A Cluster is gone."""
        self._known.pop(key, None)

    async def look(self, run: ReconcileRun) -> tuple[RecordLook, bool]:
        """The look, and whether it is a new one: the last is good until a record changes, or for a while.

        Raises KubernetesError.
        """
        known, now, records = self._known.get(run.key), run.environment.now(), run.records()
        versions = tuple(sorted(str(metadata(body).get("resourceVersion")) for body in records))
        is_held = run.before.adoption is AdoptionState.HELD
        every = _HELD_LOOK_EVERY if is_held else _LOOK_EVERY
        if known is not None and known.versions == versions and now - known.at < every:
            return known, False
        absent: list[tuple[DeclaredRecord, Absent]] = []
        for body in records:
            record = parse_record(body)
            if record is None or not record.entries:
                continue
            bodies = await run.environment.kubernetes.list(record.api, run.key.namespace)
            found = find_absent(record, bodies, cluster_uid=str(metadata(run.body)["uid"]))
            if found != Absent():
                absent.append((record, found))
        look = self._known[run.key] = RecordLook(now, versions, tuple(absent))
        return look, True


async def begin_adoption(run: ReconcileRun, looks: RecordLooks) -> ReconcileRun:
    """The run, with listeners held where something is to be deleted first. Noted before any pod is made.

    Raises KubernetesError.
    """
    state = run.before.adoption
    if state is None:
        # Pods do not count: those of an earlier Cluster may be on their way out.
        if run.before.cluster_id is not None or run.broker_set is not None:
            return run  # It serves since before there was anything to note.
        if not _has_earlier_data(run):
            return replace(run, before=replace(run.before, adoption=AdoptionState.DONE))
        look, _ = await looks.look(run)
        removes = run.context.spec.adoption.unclaimed_users is UnclaimedUsers.REMOVE
        is_held = removes or any(found.owed for _, found in look.absent)
        state = AdoptionState.HELD if is_held else AdoptionState.LOOKING
        before = replace(run.before, adoption=state)
        body = await run.environment.write_status(run.body, before, conditions_of(run.body))
        run = replace(run, before=before, body=body or run.body)
    return run.with_context(is_held=state is AdoptionState.HELD)


def _has_earlier_data(run: ReconcileRun) -> bool:
    """Whether volumes are there before any pod is, or a registry that the Cluster does not run."""
    pools = [pool.suffix for pool in run.context.pools]
    sets = [run.context.object_name(suffix) for suffix in (BROKER, ZOOKEEPER, *pools)]
    return run.context.spec.zookeeper.servers is None or any(run.claims(name) for name in sets)


async def settle_adoption(
    run: ReconcileRun, pods: Sequence[BrokerPod], settings: SettingsFound, looks: RecordLooks
) -> AdoptionFound:
    """Have what is owed deleted, and find what no resource names. Raises KubernetesError."""
    await _own_records(run)
    before = run.before
    look, is_new = await looks.look(run)
    owed = [(record, found.owed) for record, found in look.absent if found.owed]
    serves = any(pod.ready for pod in pods) and settings.cluster_id is not None
    for record, entries in owed if serves and is_new else ():
        for entry in entries:
            run.environment.wake(Key(record.api.kind, run.key.namespace, entry.resource))
    found = AdoptionFound(
        state=before.adoption,
        users=before.unclaimed_users,
        topics=before.unclaimed_topics,
        owed=", ".join(format_entries(record.api, entries) for record, entries in owed) or None,
    )
    if not serves:
        return found
    try:
        return await _settle_on_brokers(run, pods, settings, found, look.absent)
    except OdradekError as failure:
        return replace(found, unreachable=f"brokers do not say which users they have: {failure}")


async def _settle_on_brokers(
    run: ReconcileRun,
    pods: Sequence[BrokerPod],
    settings: SettingsFound,
    found: AdoptionFound,
    absent: Sequence[tuple[DeclaredRecord, Absent]],
) -> AdoptionFound:
    topics = await _find_unclaimed_topics(run, absent)
    if topics and found.topics != topics:
        message = (
            f"these topics were to go with their Topic in an earlier Cluster, and have none: {format_names(topics)}. "
            "They stay: apply their Topics, or delete them by hand"
        )
        await run.report_event("TopicsUnclaimed", message, warning=True)
    found = replace(found, topics=topics)
    if found.state is AdoptionState.HELD:
        if found.owed is not None:
            return found
        if run.context.spec.adoption.unclaimed_users is UnclaimedUsers.REMOVE:
            await _remove_unclaimed(run)
        return replace(found, state=AdoptionState.OPENING)
    if found.state is AdoptionState.OPENING:
        are_open = all(pod.ready for pod in pods) and not (settings.plan.restart or settings.unknown)
        return replace(found, state=AdoptionState.LOOKING) if are_open else found
    if found.state is AdoptionState.LOOKING or found.users:
        users = await _find_unclaimed_users(run)
        if users and found.state is AdoptionState.LOOKING:
            message = (
                f"these users were there before, and no User names them: {format_names(users)}. They keep their logins "
                "and rights: apply a User for each, delete them by hand, or set adoption.unclaimedUsers to Remove "
                "before a Cluster adopts volumes"
            )
            await run.report_event("UsersUnclaimed", message, warning=True)
        return replace(found, state=AdoptionState.DONE if found.state else None, users=users)
    return found


async def _remove_unclaimed(run: ReconcileRun) -> None:
    users = await _find_unclaimed_users(run)
    if users:
        await run.admin.remove_users(run.context.own_bootstrap, users)
        await run.report_event("UsersRemoved", f"no User names them: {format_names(users)}")


async def _find_unclaimed_users(run: ReconcileRun) -> tuple[str, ...]:
    """The principals that brokers know and no User names, without those that the Cluster itself names."""
    known = await run.admin.list_users(run.context.own_bootstrap)
    claimed = {broker_principal(run.key.name), operator_principal()}
    if run.context.spec.authorization is not None:
        claimed |= set(run.context.spec.authorization.super_users)
    claimed = {one.removeprefix(_OWN_PREFIX) for one in claimed}
    for body in await run.environment.kubernetes.list(USERS, run.key.namespace):
        spec = body.get("spec") or {}
        if spec.get("cluster") == run.key.name:
            name = str(spec.get("name") or metadata(body)["name"])
            claimed |= {name, f"CN={name}"}
    return tuple(sorted(known - claimed))


async def _find_unclaimed_topics(
    run: ReconcileRun, absent: Sequence[tuple[DeclaredRecord, Absent]]
) -> tuple[str, ...]:
    """The topics of an earlier Cluster's Topics that did not come again. Those that are gone are forgotten."""
    for record, found in absent:
        if record.api == TOPICS and found.missing:
            there = await run.admin.list_topics(run.context.own_bootstrap)
            gone = {one.uid: None for one in found.missing if one.thing not in there}
            await change_record(run.environment.kubernetes, record, gone, cluster=None)
            return tuple(sorted(one.thing for one in found.missing if one.thing in there))
    return ()


async def _own_records(run: ReconcileRun) -> None:
    """Have records belong to the Cluster and to its volume claims: they go when both have gone."""
    claims = [body for (kind, _), body in run.objects.items() if kind == VOLUME_CLAIMS.kind]
    wanted = list_owners(run.body, claims)
    for body in run.records():
        if metadata(body).get("ownerReferences") != wanted:
            patch: Json = {"metadata": {"ownerReferences": wanted}}
            await run.environment.kubernetes.merge(
                CONFIG_MAPS, run.key.namespace, str(metadata(body)["name"]), patch
            )


def cut_names(names: Sequence[str]) -> tuple[str, ...]:
    """The names that the status shows."""
    return tuple(names[:UNCLAIMED_SHOWN_MAX])
