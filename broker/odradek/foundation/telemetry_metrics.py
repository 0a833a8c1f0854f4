"""Metrics that clients push, and how many of them. `foundation.metrics` has a broker's own, and says how it works."""

from __future__ import annotations

from odradek.foundation.metric_kinds import counter as _counter
from odradek.foundation.metric_kinds import gauge as _gauge

# Where a metric has no topic, partition or node, the label is empty, which Prometheus takes as absent.
_CLIENT = ("client_id", "client_instance")
_POINT = (*_CLIENT, "metric", "topic", "partition", "node_id", "attributes")

CLIENT_METRIC = _gauge("odradek_client_metric", "The value that a client pushed last of its metric.", *_POINT)
CLIENT_COUNTER = _counter(
    "odradek_client_counter_total",
    "The sum of what a client has pushed of its metric that only rises, since this broker knows the client.",
    *_POINT,
)
CLIENT_INFO = _gauge(
    "odradek_client_info",
    "Always 1, for each client that pushes; the labels describe it.",
    *_CLIENT,
    "software_name",
    "software_version",
    "ip",
    "group",
    "group_member_id",
    "transactional_id",
    "client_rack",
)
CLIENT_INSTANCES = _gauge("odradek_client_instances", "Clients that are known for their pushes of metrics.")
CLIENT_INSTANCES_EVICTED = _counter(
    "odradek_client_instances_evicted_total", "Clients that went for others: 16,384 are known at most."
)
CLIENT_METRIC_SERIES = _gauge(
    "odradek_client_metric_series", "Series of the metrics that clients have pushed, of 10,000 at most."
)
CLIENT_METRIC_DROPPED = _counter(
    "odradek_client_metrics_dropped_total",
    "Pushed values without a series, by reason: too many of one client, of a kind that has none, or gone for others.",
    "reason",
)
CLIENT_PUSHES = _counter("odradek_client_pushes_total", "Pushes of metrics that were taken.")
CLIENT_PUSHES_REFUSED = _counter(
    "odradek_client_pushes_refused_total",
    "Requests about metrics that were refused, by reason: too early, an old subscription, or not readable.",
    "reason",
)
TRACE_SPANS = _counter(
    "odradek_trace_spans_total",
    "Spans of traces that have ended, were sent, or were refused by the collector; the others wait or found no room.",
    "outcome",
)
