"""What may be set in the chart `odradek-operator`."""

from __future__ import annotations

from helm.generate.declaration import (
    BOOLEAN,
    COUNT_OR_PERCENT,
    NAME,
    OBJECTS,
    PORT,
    STRING_MAP,
    TEXT,
    TEXTS,
    ChartValues,
    Section,
    Value,
    integer,
    one_of,
)
from helm.generate.shared import (
    COMMON,
    ENABLED,
    GLOBAL,
    NAMES,
    PLACEMENT,
    POD_HOOKS,
    SECURITY,
    dashboards,
    image,
    resources,
    rules,
    scrape,
)

_CRDS = Section(
    "crds",
    "The definitions of Cluster, Topic, ConsumerGroup, User and Mirror.",
    (
        Value(
            "install",
            True,
            BOOLEAN,
            "Install and upgrade them with this release. Turn it off where another release or a pipeline does.",
        ),
        Value(
            "keep",
            True,
            BOOLEAN,
            "Leave them, and with them every Cluster and Topic, when this release is uninstalled.",
        ),
        Value("annotations", {}, STRING_MAP, "More annotations for them."),
    ),
)

_UNINSTALL = Section(
    "uninstall",
    "What an uninstall does besides taking away what was installed.",
    (
        Value(
            "stripFinalizers",
            True,
            BOOLEAN,
            "Take the finalizer of earlier versions off every resource, by a short job of the operator's image. A "
            "resource that has one could not be deleted without an operator. Topics, groups and users stay. "
            "Needs `rbac.create`.",
        ),
    ),
)

_UPGRADE = Section(
    "upgrade",
    "What an upgrade or a rollback of this release does before it changes anything.",
    (
        Value(
            "check",
            True,
            BOOLEAN,
            "Look at all Clusters by a short job of the new image (`odradek-operator check-upgrade`). Where brokers "
            "have run a version that it does not know, Helm changes nothing. Needs `rbac.create`.",
        ),
    ),
)

_WATCH = Section(
    "watch",
    "Where the operator looks for resources, and where its rights reach.",
    (
        Value("allNamespaces", False, BOOLEAN, "Watch the whole Kubernetes cluster, with a ClusterRole."),
        Value(
            "namespaces",
            [],
            {**TEXTS, "items": {**NAME, "minLength": 1}, "uniqueItems": True},
            "Namespaces to watch, with a Role in each; they must exist. Empty for the release's own.",
        ),
    ),
    rules=(
        {
            "if": {"properties": {"allNamespaces": {"const": True}}, "required": ["allNamespaces"]},
            "then": {"properties": {"namespaces": {"maxItems": 0}}},
        },
    ),
)

_SETTINGS = Section(
    "settings",
    "How the operator works.",
    (
        Value("logLevel", "info", one_of("debug", "info", "warning", "error"), "How much it logs."),
        Value(
            "logFormat",
            "json",
            one_of("json", "text"),
            "How it logs: JSON lines for programs, or text for people.",
        ),
        Value(
            "resyncSeconds",
            300,
            integer(5, 86400),
            "How often everything is compared again even if nothing happened.",
        ),
        Value("workers", 8, integer(1, 64), "How many resources are reconciled at once."),
        Value(
            "clusterDomain",
            "cluster.local",
            {"type": "string", "minLength": 1},
            "DNS domain of the Kubernetes cluster.",
        ),
    ),
)

_RIGHTS = (
    Section(
        "rbac",
        "Roles and bindings.",
        (
            Value("create", True, BOOLEAN, "Make the operator's roles and bindings."),
            Value(
                "nodes",
                True,
                BOOLEAN,
                "Let the operator read nodes (a ClusterRole with `get` and `list`). Their zone labels give brokers' "
                "racks, and they show whether the node of a pod that is to be replaced is lost.",
            ),
            Value(
                "secretsPolicy",
                True,
                BOOLEAN,
                "Have the API server refuse the operator every Secret that is not its own, by a "
                "ValidatingAdmissionPolicy (from Kubernetes 1.30 on). Without it the operator could read any Secret of "
                "its namespaces whose name "
                "it knows, by a patch that changes nothing.",
            ),
            Value(
                "aggregate",
                True,
                BOOLEAN,
                "Give Kubernetes' `view`, `edit` and `admin` roles the right to see or edit our resources.",
            ),
        ),
    ),
    Section(
        "serviceAccount",
        "The operator's service account.",
        (
            Value("create", True, BOOLEAN, "Make it."),
            Value(
                "name",
                "",
                TEXT,
                "Its name; empty for the full name of the release, needed where it is not made here.",
            ),
            Value("annotations", {}, STRING_MAP, "Annotations for it."),
        ),
        rules=(
            {
                "if": {"properties": {"create": {"const": False}}, "required": ["create"]},
                "then": {"properties": {"name": {"minLength": 1}}},
            },
        ),
    ),
)

_AVAILABILITY = (
    Value(
        "replicas",
        1,
        integer(0, 5),
        "Pods. One holds the Lease and works; others wait for it, which shortens a failover.",
    ),
    Value(
        "terminationGracePeriodSeconds",
        30,
        integer(0),
        "Time to finish what is under way and give the Lease up.",
    ),
    Section(
        "podDisruptionBudget",
        "How many pods a drain of nodes may take at once.",
        (
            Value("enabled", True, BOOLEAN, "Make a PodDisruptionBudget."),
            Value("maxUnavailable", 1, COUNT_OR_PERCENT, "Pods that may be gone at a time; 0 blocks drains."),
        ),
    ),
    Section(
        "networkPolicy",
        "What may reach the operator's pods, and what they may reach.",
        (
            Value("enabled", True, BOOLEAN, "Make a NetworkPolicy: in, only metrics and probes."),
            Value(
                "metricsFrom",
                [],
                OBJECTS,
                "Peers that may read the metrics, in a NetworkPolicy's form; empty for all.",
                example="- {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: monitoring}}}",
            ),
            Value(
                "restrictEgress",
                False,
                BOOLEAN,
                "Limit what the pods may reach to DNS, the API server, and brokers; off, because the API server's "
                "address differs from site to site.",
            ),
            Value(
                "apiServerPorts",
                [443, 6443],
                {"type": "array", "items": PORT, "minItems": 1},
                "Ports of the API server, for `restrictEgress`.",
            ),
        ),
    ),
)

_METRICS = Section(
    "metrics",
    "Metrics of the operator and of every resource's conditions.",
    (
        Section(
            "service",
            "A Service for the metrics port.",
            (
                Value("enabled", True, BOOLEAN, "Make it."),
                Value("annotations", {}, STRING_MAP, "Annotations for it."),
            ),
        ),
        scrape(doc="Scraping by the Prometheus operator.", kind="the operator's pods"),
        rules(
            doc="Alerts on the operator and on resources that are not ready.",
            thresholds=(
                Value(
                    "notReadyFor",
                    "15m",
                    {"type": "string", "pattern": "^([0-9]+(s|m|h))+$"},
                    "How long a resource may be without the condition Ready.",
                ),
            ),
        ),
        dashboards(
            doc="A dashboard for Grafana of the operator and the resources, as a ConfigMap that its sidecar finds."
        ),
    ),
)

CHART = ChartValues(
    chart="odradek-operator",
    title="Values of the chart odradek-operator",
    content=(
        GLOBAL,
        ENABLED,
        *NAMES,
        _CRDS,
        _UNINSTALL,
        _UPGRADE,
        _WATCH,
        image("image", "odradek/operator", "The operator's image."),
        image(
            "brokerImage",
            "odradek/broker",
            "The image of brokers and controllers whose Cluster names none, and of a Mirror's workers.",
            with_policy=False,
        ),
        image(
            "zookeeperImage",
            "zookeeper",
            "The image of ZooKeeper servers whose Cluster names none.",
            registry="",
            tag="3.9",
            with_policy=False,
        ),
        _SETTINGS,
        *_AVAILABILITY,
        *_RIGHTS,
        _METRICS,
        resources("50m", "96Mi", memory_limit="384Mi"),
        *SECURITY,
        *PLACEMENT,
        *POD_HOOKS,
        *COMMON,
    ),
)
