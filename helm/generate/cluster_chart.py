"""What may be set in the chart `odradek`: a Cluster and its Topics, groups, Users, Mirrors; monitoring; Spark's rights.

What a Cluster, a Topic or a ConsumerGroup may hold is not declared here. It is the schema of their definitions, which
are written from the operator's own declarations.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from helm.generate.crd_schema import spec_schema
from helm.generate.declaration import (
    BOOLEAN,
    NAME,
    OBJECT,
    OBJECTS,
    STRING_MAP,
    TEXT,
    ChartValues,
    Schema,
    Section,
    Value,
    integer,
)
from helm.generate.shared import (
    COMMON,
    CONTAINER_SECURITY,
    ENABLED,
    GLOBAL,
    POD_SECURITY,
    dashboards,
    image,
    rules,
    scrape,
)
from helm.generate.yaml_text import read_document

DEFINITIONS = Path(__file__).parents[2] / "manifests" / "crds"
_DNS_NAME = "^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$"
_TOPIC: Schema = {"type": "string", "pattern": "^[a-zA-Z0-9._-]{1,249}$"}


def _definition(plural: str) -> Any:
    return read_document((DEFINITIONS / f"{plural}.yaml").read_text())


def _by_name(schema: str) -> Schema:
    # Not by propertyNames: Helm's error about a name that breaks it does not say where it is.
    return {
        "type": "object",
        "patternProperties": {_DNS_NAME: {"$ref": f"#/$defs/{schema}"}},
        "additionalProperties": False,
    }


_CLUSTER = Section(
    "cluster",
    "The Cluster resource.",
    (
        Value(
            "create",
            True,
            BOOLEAN,
            "Make a Cluster. Off, topics and groups go to a Cluster that is there already.",
        ),
        Value(
            "name",
            "",
            {"type": "string", "pattern": "^([a-z]([-a-z0-9]{0,38}[a-z0-9])?)?$"},
            "Its name, at most 40 characters; empty for the release's.",
        ),
        Value("annotations", {}, STRING_MAP, "Annotations for it, for example `odradek.io/paused`."),
        Value("labels", {}, STRING_MAP, "Labels for it."),
        Value(
            "keep",
            False,
            BOOLEAN,
            "Leave the Cluster, and with it the brokers, when the release is uninstalled. Volumes stay in any case "
            "unless `spec.deletionPolicy` says Delete.",
        ),
        Value(
            "spec",
            {},
            {"$ref": "#/$defs/Cluster"},
            "Its spec, as in docs/reference/resources.md; what is left out gets the definition's default.",
            example="brokers:\n  replicas: 3\n  storage: {size: 100Gi}\n  config: {min.insync.replicas: 2}\n"
            "console: {}",
        ),
    ),
    rules=(
        {
            "if": {"properties": {"create": {"const": False}}, "required": ["create"]},
            "then": {"properties": {"name": {"minLength": 1}, "spec": {"maxProperties": 0}}},
        },
        # The API server says so too, by a rule; here it is said before anything is installed.
        {
            "if": {"properties": {"spec": {"properties": {"zookeeper": {"required": ["connect"]}}}}},
            "then": {
                "properties": {"spec": {"properties": {"zookeeper": {"properties": {"servers": False}}}}}
            },
        },
    ),
)

_TOPICS = (
    Value(
        "topicDefaults",
        {},
        {"$ref": "#/$defs/Topic"},
        "Fields for every topic below that does not set them itself.",
        example="replicas: 3\nconfig: {min.insync.replicas: 2}",
    ),
    Value(
        "topics",
        {},
        _by_name("Topic"),
        "Topics, each by its resource's name, with its spec as in docs/reference/resources.md (`cluster` is filled "
        "in). A map, so that several values files can add to it.",
        example="orders: {partitions: 12, config: {retention.ms: 604800000}}",
    ),
    Value(
        "consumerGroups",
        {},
        _by_name("ConsumerGroup"),
        "Consumer groups, each by its resource's name, with its spec likewise.",
        example="billing: {topics: [orders], initialPosition: {at: Earliest}}",
    ),
    Value(
        "users",
        {},
        _by_name("User"),
        "Users, each by its resource's name, with its spec likewise. Each gets a Secret with everything that a client "
        "needs.",
        example="billing: {acls: [{resource: {type: topic, name: orders}, operations: [Read]}]}",
    ),
    Value(
        "mirrors",
        {},
        _by_name("Mirror"),
        "Mirrors, each by its resource's name, with its spec likewise. The target is this Cluster, where none is "
        "named.",
        example='shop: {sources: [{alias: shop, bootstrap: "shop.example:9092", topics: [orders]}]}',
    ),
    Value(
        "keepTopics",
        False,
        BOOLEAN,
        "Leave the Topic, ConsumerGroup, User and Mirror resources when they leave these values or the release is "
        "uninstalled. Each one's `deletionPolicy` says what becomes of the data.",
    ),
)

_THRESHOLDS = Section(
    "thresholds",
    "What alerts compare with.",
    (
        Value("groupLagSeconds", 600, integer(1), "How far behind a consumer group may be, in seconds."),
        Value("queueRecords", 100_000, integer(1), "How many records of a queue may wait while it grows."),
        Value("freeBytes", 5368709120, integer(0), "How many bytes a log directory must have free."),
        Value(
            "fullWithinHours", 24, integer(1, 168), "A log directory that would be full within so many hours."
        ),
        Value(
            "failedRequestRatio",
            0.01,
            {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
            "Share of requests that may fail.",
        ),
        Value(
            "produceSeconds",
            1,
            {"type": "number", "exclusiveMinimum": 0},
            "How long 99 of 100 produces may take, in seconds.",
        ),
        Value(
            "replicaLagRecords", 100000, integer(1), "How many records a follower may lack of one partition."
        ),
        Value(
            "mirrorLagSeconds",
            300,
            integer(1),
            "For how long records of another cluster may wait to be mirrored into this one, in seconds.",
        ),
    ),
)

_MONITORING = Section(
    "monitoring",
    "Metrics, alerts and dashboards.",
    (
        scrape(
            doc="Scraping of brokers and controllers by the Prometheus operator.",
            kind="the Cluster's pods",
            more=(
                Value(
                    "user",
                    "",
                    NAME,
                    "A User with `authentication.type: tls`, whose certificate Prometheus shows to a Cluster with "
                    "`internalListener`. It sees names of topics and groups that this User may describe.",
                ),
            ),
        ),
        rules(doc="Alerts on the cluster.", thresholds=(_THRESHOLDS,)),
        dashboards(
            doc="Dashboards for Grafana of clusters, topics, groups, mirrors and pipelines, as a ConfigMap that its "
            "sidecar finds. One serves all clusters of a Grafana."
        ),
    ),
)

_SPARK = Section(
    "spark",
    "Rights and examples for Spark jobs on Kubernetes that read from and write to the cluster.",
    (
        Value(
            "enabled",
            False,
            BOOLEAN,
            "Make the service accounts, roles and bindings that drivers and submitters need.",
        ),
        Value("serviceAccount", "spark", {**NAME, "minLength": 1}, "Service account for drivers."),
        Value(
            "submitter",
            "spark-submit",
            {**NAME, "minLength": 1},
            "Service account for pods that call spark-submit; nothing is made for it when it equals `serviceAccount`.",
        ),
        image(
            "image",
            "odradek/pipeline",
            "The image of drivers and executors: Spark, the connector, and our pipeline.",
        ),
        Section(
            "applications",
            "SparkApplication examples for the Spark operator (kubeflow); needs its definitions.",
            (
                Value("enabled", False, BOOLEAN, "Make a streaming word count and a scheduled load."),
                Value(
                    "user",
                    "",
                    {"type": "string", "maxLength": 253},
                    "The Secret of the User that jobs connect by; empty where clients need no login.",
                ),
                Value(
                    "topic",
                    "orders",
                    _TOPIC,
                    "Topic to read.",
                ),
                Value(
                    "resultTopic",
                    "words",
                    _TOPIC,
                    "Topic that the word count writes to.",
                ),
                Value(
                    "schedule",
                    "0 * * * *",
                    {"type": "string", "minLength": 9},
                    "When the load runs, as cron has it.",
                ),
                Value(
                    "claim",
                    "",
                    {"type": "string", "maxLength": 253},
                    "PersistentVolumeClaim for checkpoints and Parquet files.",
                ),
                Value("executors", 1, integer(1), "Executors of each job."),
                Value("nodeSelector", {}, STRING_MAP, "Labels that a node must have for their pods."),
                Value("tolerations", [], OBJECTS, "Taints that their pods bear."),
            ),
        ),
    ),
    rules=(
        {
            "if": {
                "properties": {
                    "applications": {"properties": {"enabled": {"const": True}}, "required": ["enabled"]}
                },
                "required": ["applications"],
            },
            "then": {
                "properties": {
                    "enabled": {"const": True},
                    "applications": {"properties": {"claim": {"minLength": 1}}},
                }
            },
        },
    ),
)

_SERVICE_BINDING = Section(
    "serviceBinding",
    "A Secret NAME-binding in the form of the Service Binding specification, for tools that take no other. The "
    "operator makes a ConfigMap NAME-binding with the same keys. What a User logs in with is in a Secret of its own.",
    (Value("enabled", False, BOOLEAN, "Make the Secret."),),
)

_TESTS = Section(
    "tests",
    "What `helm test` runs: a pod that makes a topic, writes and reads records through the bootstrap Service, and "
    "removes the topic. It has no login, so a Cluster with an `internalListener` has no such test.",
    (
        Value("enabled", True, BOOLEAN, "Offer the test."),
        image("image", "odradek/broker", "The image of the test's pod."),
        Value("records", 1000, integer(1, 1_000_000), "Records to write and read."),
        Value("timeoutSeconds", 120, integer(10), "How long the cluster may take until it takes records."),
        Value("nodeSelector", {}, STRING_MAP, "Labels that a node must have."),
        Value("tolerations", [], OBJECTS, "Taints that the pod bears."),
        Value("priorityClassName", "", TEXT, "Priority class of the pod."),
        Value(
            "podSecurityContext",
            POD_SECURITY,
            OBJECT,
            "Security of the pod. With `cluster.spec.runAs.assigned` it names no users and groups.",
        ),
        Value("securityContext", CONTAINER_SECURITY, OBJECT, "Security of the container."),
    ),
)


def chart() -> ChartValues:
    """The chart's values. Raises FileNotFoundError where the definitions have not been written."""
    return ChartValues(
        chart="odradek",
        title="Values of the chart odradek",
        content=(GLOBAL, ENABLED, _CLUSTER, *_TOPICS, _MONITORING, _SERVICE_BINDING, _SPARK, _TESTS, *COMMON),
        definitions={
            "Cluster": spec_schema(_definition("clusters"), may_lack=("zookeeper",)),
            "Topic": spec_schema(_definition("topics"), without=("cluster",)),
            "ConsumerGroup": spec_schema(_definition("consumergroups"), without=("cluster",)),
            "User": spec_schema(_definition("users"), without=("cluster",)),
            "Mirror": spec_schema(_definition("mirrors"), may_lack=("target",)),
        },
    )
