"""The brokers that there shall be now, and the movement of partitions that it requires.

More brokers are wanted: pods are made, and when they serve, partitions move to them. Fewer: those that are not wanted,
with the highest numbers of their pool, are emptied, and only then do their pods go. The status notes the movement
before the first pod is made. So a new broker is filled even when the operator was gone in between.

Pools have numbers of their own. Where one grows and another shrinks at once, the new pods are made first, and what
leaves moves to them too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from odradek_operator.desired.names import POOL_LABEL, PROCESSES_VARIABLE, PoolPods, pool_suffix
from odradek_operator.gateways.kubernetes import Json, metadata
from odradek_operator.reconcilers.cluster.facts import Objects, SetState, broker_numbers, set_state
from odradek_operator.resources.brokers import BROKERS_MAX, Brokers
from odradek_operator.resources.cluster_status import Movement


class Reason(StrEnum):
    """Why partitions move."""

    UP = "ScaleUp"
    DOWN = "ScaleDown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """`brokers` are those that there shall be; `movement` is in progress; `stop_drain`: brokers that stay after all."""

    brokers: tuple[int, ...]
    movement: Movement | None = None
    stop_drain: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class PoolFound:
    """A pool that the Cluster names, or that has a StatefulSet still."""

    name: str
    first_id: int
    processes: int = 1
    """How many brokers its pods run, in the StatefulSet that there is."""


def brokers_there(stateful_set: SetState, pods: Collection[int], before: Movement | None) -> int | None:
    """Return the number of brokers from 0 on to count as existing, None where there was none yet.

    A StatefulSet may be gone: it is being made again, or was deleted. Then its pods and the movement show the
    brokers. Taken for a new Cluster, its highest brokers would go with all their data.
    """
    if stateful_set.there:
        return stateful_set.wanted
    known = {*pods, *(before.brokers if before is not None else ())}
    known = {broker for broker in known if broker < BROKERS_MAX}
    return max(known) + 1 if known else None


def find_pools(wanted: Brokers, objects: Objects, cluster: str) -> tuple[PoolFound, ...]:
    """The pools by their first numbers: those that the Cluster names, and those that have a StatefulSet still."""
    found = {pool.name: PoolFound(pool.name, pool.first_id, pool.processes) for pool in wanted.pools}
    for (kind, name), body in objects.items():
        pool = (metadata(body).get("labels") or {}).get(POOL_LABEL)
        if kind == "StatefulSet" and pool is not None and name == f"{cluster}-{pool_suffix(pool)}":
            found.setdefault(pool, PoolFound(pool, _first_of(body), _processes_of(body)))
    return tuple(sorted(found.values(), key=lambda pool: (pool.first_id, pool.name)))


class PoolsCollide(Exception):
    """A pool has numbers of another, whose brokers are still being emptied."""

    is_expected = True


def check_pools(pools: Iterable[PoolFound], wanted: Brokers) -> None:
    """Raises PoolsCollide where a pool that is taken away has numbers of one that is named: both would make them."""
    named = {pool.name for pool in wanted.pools}
    for gone in (pool for pool in pools if pool.name not in named):
        for pool in wanted.pools:
            if abs(pool.first_id - gone.first_id) < BROKERS_MAX:
                raise PoolsCollide(
                    f"the pool {pool.name} has numbers of the pool {gone.name}, whose brokers are not gone yet. Give "
                    f"it another firstId, or name {gone.name} again with replicas: 0 and that firstId "
                    f"({gone.first_id}) until it is empty"
                )


def pool_brokers_there(
    pool: PoolFound, objects: Objects, cluster: str, before: Movement | None
) -> tuple[int, ...]:
    """The brokers of a pool to count as existing, as `brokers_there` counts."""
    state = set_state(objects.get(("StatefulSet", f"{cluster}-{pool_suffix(pool.name)}")))
    if state.there:
        return tuple(range(pool.first_id, pool.first_id + state.wanted))
    known = {*broker_numbers(objects), *(before.brokers if before is not None else ())}
    own = [broker for broker in known if 0 <= broker - pool.first_id < BROKERS_MAX]
    return tuple(range(pool.first_id, max(own) + 1)) if own else ()


def list_wanted_brokers(wanted: Brokers) -> tuple[int, ...]:
    """The numbers of all brokers that are wanted."""
    of_pools = (range(pool.first_id, pool.first_id + pool.replicas) for pool in wanted.pools)
    return (*range(wanted.replicas), *(broker for pool in of_pools for broker in pool))


def pool_pods(pools: Iterable[PoolFound], wanted: Brokers, brokers: Collection[int]) -> tuple[PoolPods, ...]:
    """The pods of each pool, where there shall be these brokers."""
    named = {pool.name: pool for pool in wanted.pools}
    return tuple(
        PoolPods(
            name=pool.name,
            first_id=pool.first_id,
            pods=sum(0 <= broker - pool.first_id < BROKERS_MAX for broker in brokers),
            wanted=named.get(pool.name),
            processes=pool.processes,
        )
        for pool in pools
    )


def scale(*, wanted: Collection[int], there: Collection[int] | None, before: Movement | None) -> Scale:
    """The decision. `there` are the brokers that there are, None before there is any."""
    if there is None:
        return Scale(brokers=tuple(sorted(wanted)))
    brokers = tuple(sorted({*there, *wanted}))
    leaving = tuple(sorted(set(there) - set(wanted)))
    if leaving:
        if before is None or before.reason != Reason.DOWN:
            return Scale(brokers=brokers, movement=Movement(reason=Reason.DOWN, brokers=leaving))
        if before.brokers == leaving:
            return Scale(brokers=brokers, movement=before)
        staying = tuple(broker for broker in before.brokers if broker in wanted)
        movement = Movement(reason=Reason.DOWN, brokers=leaving)
        return Scale(brokers=brokers, movement=movement, stop_drain=staying)
    filled = set(wanted) - set(there)
    stay: tuple[int, ...] = ()
    if before is not None:
        known = tuple(broker for broker in before.brokers if broker in wanted)
        filled |= set(known)
        if before.reason == Reason.DOWN:
            stay = known
    if not filled:
        return Scale(brokers=brokers)
    movement = Movement(reason=Reason.UP, brokers=tuple(sorted(filled)))
    if before is not None and before.reason == Reason.UP and before.brokers == movement.brokers:
        movement = before
    return Scale(brokers=brokers, movement=movement, stop_drain=stay)


def format_brokers(movement: Movement | None) -> str:
    """The brokers of a movement, for a sentence."""
    return ", ".join(str(broker) for broker in movement.brokers) if movement is not None else ""


def update_movement(movement: Movement, *, begun: int, left: int) -> Movement:
    """The movement after a look: `begun` partitions have just set out, `left` are on their way."""
    return replace(movement, total=max(movement.total + begun, left), left=left)


def _processes_of(stateful_set: Json) -> int:
    template = ((stateful_set.get("spec") or {}).get("template") or {}).get("spec") or {}
    variables = [one for container in template.get("containers") or () for one in container.get("env") or ()]
    found = (one.get("value") for one in variables if one.get("name") == PROCESSES_VARIABLE)
    return int(next(found, None) or 1)


def _first_of(stateful_set: Json) -> int:
    return int(((stateful_set.get("spec") or {}).get("ordinals") or {}).get("start") or 0)
