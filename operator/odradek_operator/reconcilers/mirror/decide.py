"""The status of a Mirror: a pure function of what is wanted, what Kubernetes has, and workers' pages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from odradek_operator.desired.mirror_names import MirrorContext
from odradek_operator.gateways.mirrors import STATES_BY_URGENCY, FlowSeen, PartitionSeen, WorkerPage
from odradek_operator.reconcilers.cluster.facts import SetState
from odradek_operator.reconcilers.user_secrets import ConnectionProblem
from odradek_operator.resources.conditions import (
    Condition,
    ConditionStatus,
    condition,
    format_timestamp,
    ready_condition,
)
from odradek_operator.resources.mirror_status import (
    ERROR_LENGTH_MAX,
    TOPICS_SHOWN_MAX,
    MirroredTopicStatus,
    MirrorSourceStatus,
    MirrorStatus,
)

MIRRORING: Final = "Mirroring"
WATCHED_SECONDS: Final = 15.0
"""The pause between two questions to workers."""
STARTING_SECONDS: Final = 5.0
WAITING_SECONDS: Final = 10.0
_ERRORS_SHOWN_MAX: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The actual state of a Mirror. `pages` are those of all workers, None where there was no answer. `pod_problem` is
    why a worker's pod does not come up.
    """

    workers: SetState = field(default_factory=SetState)
    pod_problem: str | None = None
    problems: tuple[ConnectionProblem, ...] = ()
    pages: tuple[WorkerPage | None, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorDecision:
    """The status to write, and when to look again without an event."""

    status: MirrorStatus
    conditions: tuple[Condition, ...]
    again_seconds: float | None


def find_blocking_problem(
    problems: Iterable[ConnectionProblem], *, is_running: bool
) -> ConnectionProblem | None:
    """The problem because of which nothing is made or changed now; workers that run outlive one that may pass."""
    return next((one for one in problems if not (one.may_pass and is_running)), None)


def judge(context: MirrorContext, before: MirrorStatus, seen: Seen, now: datetime) -> MirrorDecision:
    status = replace(
        before,
        target=context.spec.target_alias,
        from_=", ".join(one.alias for one in context.spec.sources),
        image=context.image,
        replicas=seen.workers.wanted if seen.workers.there else 0,
        ready=seen.workers.ready,
        selector=",".join(f"{key}={value}" for key, value in context.selector().items()),
    )
    pages = [page for page in seen.pages if page is not None]
    if pages:
        status = _add_measures(context, status, pages, now, is_whole=None not in seen.pages)
    stopped = find_blocking_problem(seen.problems, is_running=seen.workers.there)
    if stopped is not None:
        refused = ready_condition(False, stopped.reason, stopped.message)
        return MirrorDecision(status=status, conditions=(refused,), again_seconds=WAITING_SECONDS)
    if context.spec.paused:
        message = "all workers are stopped, and continue where they stopped; set paused to false"
        paused = ready_condition(False, "Paused", message)
        return MirrorDecision(status=status, conditions=(paused,), again_seconds=None)
    if not seen.workers.settled or seen.workers.ready < seen.workers.wanted or not seen.workers.wanted:
        waits = _workers_condition(context, seen, pages)
        mirroring = (_mirroring_condition(pages),) if pages else ()
        return MirrorDecision(status=status, conditions=(waits, *mirroring), again_seconds=STARTING_SECONDS)
    if not pages:
        message = (
            "no worker answers the operator at its HTTP port; do NetworkPolicies or a firewall allow that?"
        )
        unknown = ready_condition(None, "NoAnswer", message)
        return MirrorDecision(status=status, conditions=(unknown,), again_seconds=WAITING_SECONDS)
    mirroring_now = _mirroring_condition(pages)
    if mirroring_now.status is ConditionStatus.TRUE:
        stated = ready_condition(True, "Ready", f"workers mirror {status.from_} into {status.target}")
    else:
        stated = ready_condition(False, mirroring_now.reason, mirroring_now.message)
    return MirrorDecision(status=status, conditions=(stated, mirroring_now), again_seconds=WATCHED_SECONDS)


def _workers_condition(context: MirrorContext, seen: Seen, pages: Sequence[WorkerPage]) -> Condition:
    wanted = context.workers
    message = f"{seen.workers.ready} of {wanted} workers serve"
    why = [
        seen.pod_problem,
        *(problem.message for problem in seen.problems),
        _format_errors(_list_errors(pages)),
    ]
    message = "; ".join([message, *filter(None, why)])
    return ready_condition(False, "WorkersNotReady", message)


def _mirroring_condition(pages: Sequence[WorkerPage]) -> Condition:
    """Whether all that is wanted is mirrored, as workers say."""
    errors = _format_errors(_list_errors(pages))
    if not errors:
        return condition(MIRRORING, True, "Running", "all partitions of all sources are mirrored")
    return condition(MIRRORING, False, "Failing", errors)


def _format_errors(errors: Iterable[str]) -> str:
    """Each error once, the first ones in words."""
    each = list(dict.fromkeys(errors))
    more = len(each) - _ERRORS_SHOWN_MAX
    return "; ".join(each[:_ERRORS_SHOWN_MAX]) + (f"; and {more} more" if more > 0 else "")


def _list_errors(pages: Iterable[WorkerPage]) -> Iterable[str]:
    for page in pages:
        for flow in page.flows:
            if flow.is_failing:
                yield f"{flow.source}: {flow.error or 'its worker reports no reason; look at its log'}"
            for partition in flow.partitions:
                if partition.error:
                    yield f"{flow.source}: {partition.topic}: {partition.error}"


# --- measures -----------------------------------------------------------------------------------------------------


def _add_measures(
    context: MirrorContext,
    status: MirrorStatus,
    pages: Sequence[WorkerPage],
    now: datetime,
    *,
    is_whole: bool,
) -> MirrorStatus:
    flows = [flow for page in pages for flow in page.flows]
    sources = tuple(
        _source_status(one.alias, [flow for flow in flows if flow.source == one.alias])
        for one in context.spec.sources
    )
    topics = _list_topics(flows)
    lag = _sum_lags(one.lag for one in topics)
    if not is_whole:  # a worker that does not answer has partitions too
        lag, sources = None, tuple(replace(one, lag=None) for one in sources)
    # What is not known may be the furthest.
    topics.sort(key=lambda one: (one.lag is not None, -(one.lag or 0), one.source, one.topic))
    measured = replace(
        status,
        topics=len(topics),
        lag=lag,
        sources=sources,
        furthest=tuple(topics[:TOPICS_SHOWN_MAX]),
    )
    return measured if measured == status else replace(measured, measured_at=format_timestamp(now))


def _source_status(alias: str, flows: Sequence[FlowSeen]) -> MirrorSourceStatus:
    partitions = [one for flow in flows for one in flow.partitions]
    states = [flow.state for flow in flows]
    error = next((flow.error for flow in flows if flow.error), None)
    return MirrorSourceStatus(
        alias=alias,
        # One worker that fails is more important than others that run.
        state=next((one for one in STATES_BY_URGENCY if one in states), None),
        topics=len({one.topic for one in partitions}),
        partitions=len(partitions),
        lag=_sum_lags(one.lag for one in partitions),
        last_error=None if error is None else error[:ERROR_LENGTH_MAX],
    )


def _list_topics(flows: Iterable[FlowSeen]) -> list[MirroredTopicStatus]:
    by_name: dict[tuple[str, str], list[PartitionSeen]] = {}
    for flow in flows:
        for partition in flow.partitions:
            by_name.setdefault((flow.source, partition.topic), []).append(partition)
    return [
        MirroredTopicStatus(
            source=source,
            topic=topic,
            partitions=len(partitions),
            lag=_sum_lags(one.lag for one in partitions),
            lag_seconds=max(
                (one.lag_seconds for one in partitions if one.lag_seconds is not None), default=None
            ),
        )
        for (source, topic), partitions in by_name.items()
    ]


def _sum_lags(lags: Iterable[int | None]) -> int | None:
    """The sum; None where one is not known, or where there is none: a part of the sum would look like a small lag."""
    known = list(lags)
    return None if not known or None in known else sum(lag for lag in known if lag is not None)
