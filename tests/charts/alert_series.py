"""Series of a healthy cluster and of one with a fault, for each alert of both charts.

A test of promtool is made of each row: the series are healthy, have the fault from a minute on, and are healthy again.
Counters are written by what they grow in a minute. `ALERTS` has a row for every alert; `test_alert_series.py` says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Series:
    """One series by its selector without the scope: its value in health and under the fault; None is no sample.

    A gauge changes by `step` in each minute of the fault. A counter grows by its value in each minute.
    """

    selector: str
    healthy: float | None
    faulty: float | None
    step: float = 0
    is_counter: bool = False

    def values(self, minutes: int, begin: int, end: int) -> Iterator[float | None]:
        """A value a minute; the fault lasts from the minute `begin` to before `end`."""
        total = 0.0
        for minute in range(minutes):
            is_faulty = begin <= minute < end
            value = self.faulty if is_faulty else self.healthy
            if self.is_counter:
                total += value or 0
                yield total
            else:
                yield value + self.step * (minute - begin) if is_faulty and value is not None else value


@dataclass(frozen=True, slots=True)
class Row:
    """The series of one alert. `brief` is for how many minutes the fault may last without the alert.

    Without `brief` that is a minute less than the alert's `for`. A window of rates sees a fault for longer than it
    lasts. `late` is how many minutes the expression takes to see the fault.
    """

    series: tuple[Series, ...]
    brief: int | None = None
    late: int = 0


def gauge(selector: str, healthy: float | None, faulty: float | None, *, step: float = 0) -> Series:
    return Series(selector, healthy, faulty, step)


def counter(selector: str, healthy: float, faulty: float) -> Series:
    return Series(selector, healthy, faulty, is_counter=True)


def one(series: Series, *, brief: int | None = None, late: int = 0) -> Row:
    return Row((series,), brief, late)


_PRODUCE: Final = 'odradek_request_seconds_bucket{pod="b-0",api="Produce",le="%s"}'
_GROUP: Final = 'group="billing",topic="orders",partition="0"'
_PATH: Final = 'pod="b-0",path="/data"'
_CONDITION: Final = (
    'odradek_resource_condition{pod="o-0",kind="%s",exported_namespace="shop",name="a",condition="%s"}'
)
_SHARE: Final = 'odradek_share_%s{pod="b-0",group="resize"%s}'
_FREE: Final = f"odradek_log_directory_free_bytes{{{_PATH}}}"

OF_CLUSTERS: Final = {
    "OdradekNoActiveController": Row(
        (
            gauge('odradek_is_controller{pod="c-0"}', 1, 0),
            gauge('odradek_is_controller{pod="c-1"}', 0, None),
        )
    ),
    "OdradekProcessDown": Row(
        (gauge('up{pod="b-0"}', 1, 0), gauge('odradek_machine_process_up{pod="b-1",process="2"}', 1, 0))
    ),
    "OdradekPartitionsLeaderless": one(gauge('odradek_partitions_leaderless{pod="c-0"}', 0, 3)),
    "OdradekPartitionsBelowMinInSync": one(gauge('odradek_partitions_below_min_in_sync{pod="b-0"}', 0, 3)),
    "OdradekPartitionsUnderReplicated": one(gauge('odradek_partitions_under_replicated{pod="c-0"}', 0, 3)),
    "OdradekReplicaBehind": one(gauge('odradek_replica_lag_records{pod="b-0",replica="1"}', 5_000, 200_000)),
    "OdradekReplicaFetchesFail": one(
        counter('odradek_replica_fetch_failures_total{pod="b-1",leader="0"}', 0, 10), brief=3
    ),
    "OdradekPartitionsOffline": one(gauge('odradek_partitions_offline{pod="b-0"}', 0, 2)),
    "OdradekLogDirectoryFailed": one(gauge(f"odradek_log_directory_online{{{_PATH}}}", 1, 0)),
    "OdradekLogDirectoryFull": one(gauge(f"odradek_log_directory_full{{{_PATH}}}", 0, 1)),
    "OdradekLogDirectoryLow": one(gauge(_FREE, 50e9, 1e9)),
    "OdradekLogDirectoryFilling": one(gauge(_FREE, 500e9, 500e9, step=-2e9), brief=20, late=10),
    "OdradekBrokerFenced": one(gauge('odradek_is_fenced{pod="b-0"}', 0, 1)),
    "OdradekRequestsFail": Row(
        (
            counter('odradek_requests_total{pod="b-0",api="Produce"}', 1_000, 1_000),
            counter('odradek_request_failures_total{pod="b-0",api="Produce"}', 1, 100),
        ),
        brief=3,
    ),
    "OdradekProducesSlow": Row(
        (
            counter(_PRODUCE % "0.5", 1_000, 500),
            counter(_PRODUCE % "1", 1_000, 500),
            counter(_PRODUCE % "5", 1_000, 1_000),
            counter(_PRODUCE % "+Inf", 1_000, 1_000),
        ),
        brief=3,
    ),
    "OdradekGroupBehind": one(gauge(f'odradek_group_lag_seconds{{pod="b-0",{_GROUP}}}', 30, 3_600, step=60)),
    "OdradekGroupsRefused": one(gauge('odradek_group_partitions_refused{pod="b-0"}', 0, 1)),
    # A queue may be long, as long as it does not grow.
    "OdradekQueueGrows": one(
        gauge(f'odradek_share_partition_lag_messages{{pod="b-0",{_GROUP}}}', 150_000, 160_000, step=1_000),
        brief=3,
    ),
    "OdradekQueueLocksEnd": one(
        counter(_SHARE % ("partition_acquisition_lock_timeouts_total", ',topic="t",partition="0"'), 0, 3),
        brief=1,
    ),
    "OdradekDeadLetters": one(counter(_SHARE % ("group_dead_letter_queue_records_total", ""), 0, 1)),
    "OdradekDeadLettersLost": one(
        counter(_SHARE % ("group_dead_letter_queue_refused_records_total", ""), 0, 1)
    ),
    "OdradekConnectionsRefused": one(
        counter('odradek_connections_refused_total{pod="b-0",listener="all"}', 0, 10), brief=1
    ),
    "OdradekOpenFilesNearLimit": Row(
        (
            gauge('process_open_fds{pod="b-0"}', 500, 950),
            gauge('process_max_fds{pod="b-0"}', 1_000, 1_000),
        )
    ),
    "OdradekMirrorPartitionStopped": one(
        gauge('odradek_mirror_partition_stopped{pod="m-0",source="shop",topic="t",partition="0"}', 0, 1)
    ),
    "OdradekMirrorBehind": one(
        gauge('odradek_mirror_lag_seconds{pod="m-0",source="shop",topic="t",partition="0"}', 2, 900, step=60)
    ),
    # A second worker that waits is no fault.
    "OdradekMirrorFlowDown": Row(
        (
            gauge('odradek_mirror_flow_running{pod="m-0",source="shop"}', 1, 0),
            gauge('odradek_mirror_flow_running{pod="m-1",source="shop"}', 0, 0),
        )
    ),
}

OF_THE_OPERATOR: Final = {
    "OdradekOperatorNotLeading": one(gauge('odradek_operator_leading{pod="o-0"}', 1, None)),
    "OdradekOperatorFailing": one(gauge('odradek_operator_queue_failing{pod="o-0"}', 0, 2)),
    "OdradekOperatorWatchSilent": one(
        gauge(
            'odradek_operator_watch_silent_seconds{pod="o-0",kind="Topic",exported_namespace="shop"}', 60, 400
        )
    ),
    "OdradekOperatorNamespaceLeftOut": one(
        gauge('odradek_operator_namespace_left_out{pod="o-0",exported_namespace="shop"}', 0, 1)
    ),
    "OdradekResourceNotReady": one(gauge(_CONDITION % ("Cluster", "Ready"), 1, 0)),
    "OdradekGroupOutsideLagObjective": one(gauge(_CONDITION % ("ConsumerGroup", "LagWithinObjective"), 1, 0)),
}

ALERTS: Final = {**OF_CLUSTERS, **OF_THE_OPERATOR}
