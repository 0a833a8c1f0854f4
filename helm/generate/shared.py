"""Values that both charts have, declared once so that they are called and checked alike."""

from __future__ import annotations

from helm.generate.declaration import (
    BOOLEAN,
    NAME,
    OBJECT,
    OBJECTS,
    STRING_MAP,
    TEXT,
    Schema,
    Section,
    Value,
    one_of,
)

DIGEST: Schema = {"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"}
REGISTRY: Schema = {"type": "string", "pattern": "^([^/:]+(:[0-9]+)?(/[^:]+)?)?$"}
PROMETHEUS_DURATION: Schema = {"type": "string", "pattern": "^([0-9]+(ms|s|m|h))+$"}
QUANTITY: Schema = {"anyOf": [{"type": "string", "pattern": "^[0-9.]+([EPTGMkm]i?)?$"}, {"type": "number"}]}

# What `make images` calls them. No registry is ours, and a name there could be taken by others.
BUILT_HERE = "localhost"

GLOBAL = Section(
    "global",
    "What charts of one installation share. Charts above this one may put more here.",
    (
        Value(
            "imageRegistry",
            "",
            REGISTRY,
            "Registry for every image of the chart, before any registry named below; for mirrors.",
        ),
        Value(
            "imagePullSecrets",
            [],
            {"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "object"}]}},
            "Secrets for pulling images: names, or objects with `name`.",
        ),
    ),
    open=True,
)

NAMES = (
    Value("nameOverride", "", NAME, "Replaces the chart's name in the names of resources."),
    Value("fullnameOverride", "", NAME, "Replaces the whole name that resources are called by."),
)

COMMON = (
    Value("commonLabels", {}, STRING_MAP, "Labels for everything that the chart makes; never in a selector."),
    Value("commonAnnotations", {}, STRING_MAP, "Annotations for everything that the chart makes."),
    Value(
        "extraObjects",
        [],
        {"type": "array", "items": {"anyOf": [{"type": "object"}, {"type": "string"}]}},
        "Further objects, as objects or as text; templates in them are filled in.",
    ),
)

ENABLED = Value(
    "enabled",
    True,
    {"type": "boolean"},
    "Read by a chart above this one (`condition: NAME.enabled`); without effect here.",
)


def image(
    name: str,
    repository: str,
    doc: str,
    *,
    registry: str = BUILT_HERE,
    tag: str = "",
    with_policy: bool = True,
) -> Section:
    """Which image: registry, repository, and a tag or a digest; and when it is pulled, where the chart decides that."""
    policy = Value(
        "pullPolicy",
        "IfNotPresent",
        one_of("Always", "IfNotPresent", "Never"),
        "When the node pulls the image.",
    )
    return Section(
        name,
        doc,
        (
            Value("registry", registry, REGISTRY, "Registry; `global.imageRegistry` goes before it."),
            Value("repository", repository, {"type": "string", "minLength": 1}, "Repository."),
            Value("tag", tag, TEXT, "Tag; empty for the chart's appVersion."),
            Value("digest", "", DIGEST, "Digest (`sha256:…`); where it is set, the tag does not count."),
            *((policy,) if with_policy else ()),
        ),
    )


def resources(cpu: str, memory: str, *, memory_limit: str) -> Section:
    """Requests and limits; no limit on the processor, which would only slow things down."""
    amounts: Schema = {"type": "object", "additionalProperties": QUANTITY}
    return Section(
        "resources",
        "What the pod asks for and may use.",
        (
            Value("requests", {"cpu": cpu, "memory": memory}, amounts, "What the scheduler reserves."),
            Value("limits", {"memory": memory_limit}, amounts, "What the pod may not exceed."),
        ),
    )


POD_SECURITY = {
    "runAsNonRoot": True,
    "runAsUser": 10001,
    "runAsGroup": 10001,
    "fsGroup": 10001,
    "seccompProfile": {"type": "RuntimeDefault"},
}
CONTAINER_SECURITY = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}

SECURITY = (
    Section(
        "runAs",
        "The users and groups of the operator's pods and jobs.",
        (
            Value(
                "assigned",
                False,
                {"type": "boolean"},
                "The platform gives them, as OpenShift does: `runAsUser`, `runAsGroup` and `fsGroup` are left out.",
            ),
        ),
    ),
    Value(
        "podSecurityContext",
        POD_SECURITY,
        OBJECT,
        "Security of the pod; as it stands it fits the `restricted` pod security standard.",
    ),
    Value("securityContext", CONTAINER_SECURITY, OBJECT, "Security of the container, likewise."),
)

PLACEMENT = (
    Value("nodeSelector", {"kubernetes.io/os": "linux"}, STRING_MAP, "Labels that a node must have."),
    Value("tolerations", [], OBJECTS, "Taints that the pod bears."),
    Value("affinity", {}, OBJECT, "Affinity, in Kubernetes' own form."),
    Value(
        "topologySpreadConstraints",
        [],
        OBJECTS,
        "How pods spread over nodes and zones; a constraint without `labelSelector` gets the pods' own.",
        example="- {maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: ScheduleAnyway}",
    ),
    Value("priorityClassName", "", TEXT, "Priority class of the pod."),
)

POD_HOOKS = (
    Value("podLabels", {}, STRING_MAP, "More labels for the pod."),
    Value("podAnnotations", {}, STRING_MAP, "Annotations for the pod."),
    Value(
        "extraEnv",
        [],
        OBJECTS,
        "More environment variables for the container.",
        example="- {name: HTTPS_PROXY, value: http://proxy:3128}",
    ),
    Value("extraEnvFrom", [], OBJECTS, "ConfigMaps and Secrets to take environment variables from."),
    Value("extraContainers", [], OBJECTS, "More containers beside the operator's."),
    Value("extraInitContainers", [], OBJECTS, "Containers that run before the operator's."),
    Value("extraVolumes", [], OBJECTS, "More volumes for the pod."),
    Value("extraVolumeMounts", [], OBJECTS, "More volume mounts for the container."),
    Value(
        "extraArgs",
        [],
        {"type": "array", "items": {"type": "string"}},
        "More arguments for the command, as where pods have addresses of IPv6 alone.",
        example="- --http=[::]:8080",
    ),
)


def scrape(*, doc: str, kind: str, more: tuple[Value, ...] = ()) -> Section:
    """A PodMonitor of the Prometheus operator, with `more` values."""
    return Section(
        "podMonitor",
        doc,
        (
            Value(
                "enabled",
                False,
                {"type": "boolean"},
                f"Make a PodMonitor for {kind}. Needs the Prometheus operator's definitions.",
            ),
            Value(
                "interval",
                "15s",
                PROMETHEUS_DURATION,
                "How often to scrape.",
            ),
            Value(
                "scrapeTimeout",
                "10s",
                PROMETHEUS_DURATION,
                "When to give a scrape up; not above the interval.",
            ),
            Value(
                "labels",
                {},
                STRING_MAP,
                "Labels by which your Prometheus selects PodMonitors.",
                example="release: kube-prometheus-stack",
            ),
            Value(
                "metricRelabelings",
                [],
                OBJECTS,
                "Relabelling of what was scraped, for example to drop labels.",
            ),
            *more,
        ),
    )


def dashboards(*, doc: str) -> Section:
    """The ConfigMap with Grafana's dashboards."""
    return Section(
        "dashboard",
        doc,
        (
            Value("enabled", False, BOOLEAN, "Make the ConfigMap."),
            Value("namespace", "", NAME, "Namespace for it; empty for the release's."),
            Value("labels", {"grafana_dashboard": "1"}, STRING_MAP, "Labels by which the sidecar finds it."),
            Value("annotations", {}, STRING_MAP, "Annotations, for example the folder's name."),
        ),
    )


def rules(*, doc: str, thresholds: tuple[Value | Section, ...]) -> Section:
    """A PrometheusRule of the Prometheus operator, with what its alerts compare with."""
    return Section(
        "prometheusRule",
        doc,
        (
            Value(
                "enabled",
                False,
                {"type": "boolean"},
                "Make a PrometheusRule. Needs the Prometheus operator's definitions.",
            ),
            Value(
                "labels",
                {},
                STRING_MAP,
                "Labels by which your Prometheus selects rules.",
                example="release: kube-prometheus-stack",
            ),
            Value("alertLabels", {}, STRING_MAP, "Labels for every alert, for routing."),
            Value(
                "runbookUrl",
                "",
                {"type": "string", "pattern": "^(https?://.*)?$"},
                "Where runbooks are: the alert's name is put behind it, or in place of `{alert}`. Empty for this "
                "release's pages, where Chart.yaml has a `home`; else for none.",
            ),
            Value(
                "disabled",
                [],
                {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
                "Names of alerts to leave out.",
            ),
            *thresholds,
        ),
    )
