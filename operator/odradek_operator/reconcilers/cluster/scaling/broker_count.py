"""The number of brokers' pods to run now, and the movement of partitions that it requires.

More brokers are wanted: pods are made, and when they serve, partitions move to them. Fewer: the brokers with the
highest numbers are emptied, and only then do their pods go. The status notes the movement before the first pod is made.
So a new broker is filled even when the operator was gone in between.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from enum import StrEnum

from odradek_operator.reconcilers.cluster.facts import SetState
from odradek_operator.resources.cluster_status import Movement


class Reason(StrEnum):
    """Why partitions move."""

    UP = "ScaleUp"
    DOWN = "ScaleDown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """`pods` are those that there shall be; `movement` is in progress; `stop_drain`: brokers that stay after all."""

    pods: int
    movement: Movement | None = None
    stop_drain: tuple[int, ...] = ()


def brokers_there(stateful_set: SetState, pods: Collection[int], before: Movement | None) -> int | None:
    """Return the number of brokers to count as existing, None where there was none yet.

    A StatefulSet may be gone: it is being made again, or was deleted. Then its pods and the movement show the
    brokers. Taken for a new Cluster, its highest brokers would go with all their data.
    """
    if stateful_set.there:
        return stateful_set.wanted
    known = {*pods, *(before.brokers if before is not None else ())}
    return max(known) + 1 if known else None


def scale(*, wanted: int, there: int | None, before: Movement | None) -> Scale:
    """The decision. `there` is how many brokers there are, None before there is any."""
    if there is None:
        return Scale(pods=wanted)
    if wanted < there:
        leaving = tuple(range(wanted, there))
        if before is None or before.reason != Reason.DOWN:
            return Scale(pods=there, movement=Movement(reason=Reason.DOWN, brokers=leaving))
        if before.brokers == leaving:
            return Scale(pods=there, movement=before)
        staying = tuple(broker for broker in before.brokers if broker < wanted)
        return Scale(pods=there, movement=Movement(reason=Reason.DOWN, brokers=leaving), stop_drain=staying)
    filled = set(range(there, wanted))
    stay: tuple[int, ...] = ()
    if before is not None:
        brokers = tuple(broker for broker in before.brokers if broker < wanted)
        filled |= set(brokers)
        if before.reason == Reason.DOWN:
            stay = brokers
    if not filled:
        return Scale(pods=wanted)
    movement = Movement(reason=Reason.UP, brokers=tuple(sorted(filled)))
    if before is not None and before.reason == Reason.UP and before.brokers == movement.brokers:
        movement = before
    return Scale(pods=wanted, movement=movement, stop_drain=stay)


def format_brokers(movement: Movement | None) -> str:
    """The brokers of a movement, for a sentence."""
    return ", ".join(str(broker) for broker in movement.brokers) if movement is not None else ""


def update_movement(movement: Movement, *, begun: int, left: int) -> Movement:
    """The movement after a look: `begun` partitions have just set out, `left` are on their way."""
    return replace(movement, total=max(movement.total + begun, left), left=left)
