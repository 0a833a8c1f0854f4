"""The console of a Cluster: its pages in a browser, the clusters that they show, and the peers that reach them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Final

from odradek.foundation.console_limits import CONSOLE_CLUSTERS_MAX
from odradek_operator.resources.connections import BOOTSTRAP, CONNECTION_RULES
from odradek_operator.resources.console_masks import MASKS_MAX, ConsoleMask
from odradek_operator.resources.pods import Pod, Resources
from odradek_operator.resources.schema import Flag, OpenList, Text
from odradek_operator.resources.security import SECRET_KEY, SECRET_NAME
from odradek_operator.resources.structure import Doc, Listing, Nested, Rule
from odradek_operator.resources.topic import CLUSTER_NAME

HOSTS_MAX: Final = 32
OTHERS_MAX: Final = CONSOLE_CLUSTERS_MAX - 1
CONSOLE_CLUSTER_NAME_LENGTH_MAX: Final = 64

_HOST: Final = Text(
    min_length=1,
    max_length=253,
    pattern=r"^[a-zA-Z0-9]([a-zA-Z0-9.-]*[a-zA-Z0-9])?$",
    what="a host name without scheme and port, as console.example.org",
)
_REGISTRY_URL: Final = Text(
    min_length=1,
    max_length=2048,
    pattern=r"^https?://[^\s,@]+(,https?://[^\s,@]+)*$",
    what="a URL as https://HOST:PORT without a login, several with commas; a login goes into secretName",
)

_SEEN_BY_LABEL: Final = (
    'With the label `odradek.io/password: "true"` a change of it replaces the pod by itself.'
)
CONSOLE_RULES: Final = (
    Rule(
        "!has(self.console) || has(self.console.user) || has(self.console.logins) || !has(self.internalListener) || "
        "!has(self.internalListener.authentication)",
        "clients of the internal listener log in: give console.user, a User of this Cluster, or console.logins",
    ),
    Rule(
        "!has(self.console) || !has(self.console.logins) || (has(self.internalListener) && "
        "has(self.internalListener.authentication) && self.internalListener.authentication.type == 'scram-sha-512')",
        "console.logins needs users with passwords: give internalListener the authentication scram-sha-512",
    ),
)
"""Those that look at other parts of the Cluster's spec, too."""

CONSOLE_NAMES_RULE: Final = Rule(
    "!has(self.spec.console) || !has(self.spec.console.clusters) || "
    "self.spec.console.clusters.all(one, one.name != self.metadata.name)",
    "console.clusters are those beside this Cluster, whose name one of them has: give it another name",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleSchemaRegistry:
    """The schema registry by which a cluster's records are decoded."""

    url: Annotated[str, _REGISTRY_URL, Doc("Its address; several of one registry with commas.")]
    secret_name: Annotated[
        str | None,
        SECRET_NAME,
        Doc(
            "The Secret in the same namespace with its login: `username` and `password`, or `token`. With `ca.crt` the "
            "registry's certificate is checked by that authority. Without it: no login, and the system's authorities. "
            f"{_SEEN_BY_LABEL}"
        ),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleConnection:
    """Another cluster that a console shows."""

    RULES: ClassVar[tuple[Rule, ...]] = CONNECTION_RULES

    name: Annotated[
        str,
        Text(
            min_length=1,
            max_length=CONSOLE_CLUSTER_NAME_LENGTH_MAX,
            pattern=r"^[a-zA-Z0-9][a-zA-Z0-9._-]*$",
            what="a name of letters, digits, ., _ and -, with a letter or a digit first",
        ),
        Doc("The cluster's name in the console, and in the addresses of its pages."),
    ]
    cluster: Annotated[str | None, CLUSTER_NAME, Doc("A Cluster in the same namespace.")] = None
    user: Annotated[
        str | None,
        SECRET_NAME,
        Doc(
            "The User of that Cluster by which the console logs in. It is needed where the Cluster has logins."
        ),
    ] = None
    bootstrap: Annotated[
        str | None,
        BOOTSTRAP,
        Doc("Addresses of any other Kafka or Odradek cluster, as HOST:PORT with commas between them."),
    ] = None
    client_secret: Annotated[
        str | None,
        SECRET_NAME,
        Doc(
            "The Secret in the same namespace with `client.properties`: Kafka's client properties for `bootstrap`. The "
            f"console mounts all of it at /etc/odradek-clusters/NAME. Without it: no login. {_SEEN_BY_LABEL}"
        ),
    ] = None
    schema_registry: Annotated[
        ConsoleSchemaRegistry | None,
        Nested(ConsoleSchemaRegistry),
        Doc("The schema registry of its records. Without it: what `clientSecret` says, or none."),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleSecretKey:
    """A key of a Secret in the Cluster's namespace."""

    name: Annotated[str, SECRET_NAME, Doc(f"The Secret. {_SEEN_BY_LABEL}")]
    key: Annotated[str, SECRET_KEY, Doc("The key whose value is meant.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleSecretSource:
    """Where a secret comes from."""

    secret_key_ref: Annotated[ConsoleSecretKey, Nested(ConsoleSecretKey), Doc("A key of a Secret.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleClientSecret:
    """The secret by which an identity provider knows a console."""

    value_from: Annotated[ConsoleSecretSource, Nested(ConsoleSecretSource), Doc("Where it comes from.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenIdConnect:
    """The identity provider that names viewers of clusters with tokens."""

    issuer: Annotated[
        str,
        Text(
            min_length=1,
            max_length=2048,
            pattern=r"^https://[^\s@?#]+$",
            what="the provider's address as it has it itself, with https:// and without a query",
        ),
        Doc("The provider, as https://id.example.org/realms/staff."),
    ]
    client_id: Annotated[
        str,
        Text(min_length=1, max_length=256, pattern=r"^[!-~]+$", what="a name without blanks"),
        Doc("The name that the provider has for this console."),
    ]
    client_secret: Annotated[
        ConsoleClientSecret | None,
        Nested(ConsoleClientSecret),
        Doc("The secret that the provider gave this console. Without it: none, and PKCE alone."),
    ] = None
    scope: Annotated[
        str,
        Text(
            min_length=1,
            max_length=1024,
            pattern=r"^[!-~]+( [!-~]+)*$",
            what="scopes with one blank between them, as `openid kafka`",
        ),
        Doc("What is asked of the provider, with blanks between."),
    ] = "openid"


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewerLogins:
    """The logins of viewers. Brokers judge them, by the rights of their Users."""

    url: Annotated[
        str | None,
        Text(
            min_length=1,
            max_length=300,
            pattern=r"^https?://[a-zA-Z0-9]([a-zA-Z0-9.-]*[a-zA-Z0-9])?(:[0-9]+)?$",
            what="an address without a path, as https://console.example.org",
        ),
        Doc(
            "The address by which browsers reach the console, as that of an Ingress: its name is allowed, and with "
            "https cookies go over TLS alone."
        ),
    ] = None
    open_id_connect: Annotated[
        OpenIdConnect | None,
        Nested(OpenIdConnect),
        Doc(
            "The identity provider for clusters whose `clientSecret` has `sasl.mechanism=OAUTHBEARER`. It has to know "
            "`URL/login/done`."
        ),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConsole:
    """The console of a Cluster. It has one pod: what it has asked is shared by all viewers."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.logins) || (!has(self.user) && self.clusters.all(one, !has(one.user)))",
            "with logins each viewer logs in, and no user of the console's own does: leave user out",
        ),
        Rule(
            "!has(self.logins) || self.clusters.all(one, has(one.cluster) || has(one.clientSecret))",
            "with logins each cluster needs them: give clientSecret, with security.protocol and sasl.mechanism",
        ),
        Rule(
            "!has(self.logins) || !has(self.logins.openIdConnect) || has(self.logins.url)",
            "an identity provider sends browsers back to the console: give logins.url",
        ),
        Rule(
            "!has(self.logins) || !has(self.logins.openIdConnect) || "
            "self.clusters.exists(one, has(one.clientSecret))",
            "openIdConnect is for clusters that take tokens, and Users have passwords: name one in clusters, with "
            "sasl.mechanism=OAUTHBEARER in its clientSecret",
        ),
    )

    user: Annotated[
        str | None,
        SECRET_NAME,
        Doc(
            "The User of this Cluster by which the console logs in: viewers see what it may see. It is needed where "
            "internalListener has an authentication, unless viewers log in themselves (`logins`)."
        ),
    ] = None
    clusters: Annotated[
        tuple[ConsoleConnection, ...],
        Listing(Nested(ConsoleConnection), max_items=OTHERS_MAX, keys=("name",)),
        Doc(
            "Clusters that it shows beside this one. One whose Cluster, User or Secret is missing is left out, and the "
            "condition Console names it."
        ),
    ] = ()
    schema_registry: Annotated[
        ConsoleSchemaRegistry | None,
        Nested(ConsoleSchemaRegistry),
        Doc("The schema registry by which records of this Cluster are decoded. Without it: none."),
    ] = None
    masks: Annotated[
        tuple[ConsoleMask, ...],
        Listing(Nested(ConsoleMask), max_items=MASKS_MAX),
        Doc("What no viewer sees of records, whatever its rights are."),
    ] = ()
    logins: Annotated[
        ViewerLogins | None,
        Nested(ViewerLogins),
        Doc(
            "Let each viewer log in, `{}` by name and password of a User. Viewers see and change what their user may. "
            "Without it the console has no login."
        ),
    ] = None
    allow_changes: Annotated[
        bool,
        Flag(),
        Doc(
            "Let viewers produce records, make, change and delete topics, and reset offsets. Without `logins` each "
            "person who reaches the console may."
        ),
    ] = False
    allowed_hosts: Annotated[
        tuple[str, ...],
        Listing(_HOST, max_items=HOSTS_MAX),
        Doc(
            "Names by which browsers and proxies reach it, as an Ingress has one. localhost is always among them, for "
            "`kubectl port-forward`; the names of its Service are not."
        ),
    ] = ()
    clients: Annotated[
        tuple[Mapping[str, object], ...] | None,
        OpenList("list of Kubernetes' NetworkPolicyPeer"),
        Doc(
            "Which peers reach the console, as the pods of an ingress controller. Without it: none. `kubectl "
            "port-forward` needs none. With `network.enabled: false` all that can reach the pod."
        ),
    ] = None
    resources: Annotated[Resources, Nested(Resources), Doc("The console's share of its node.")] = field(
        default_factory=lambda: Resources(
            requests={"cpu": "50m", "memory": "128Mi"}, limits={"memory": "512Mi"}
        )
    )
    pod: Annotated[Pod, Nested(Pod), Doc("Additions to the console's pod.")] = field(default_factory=Pod)

    @property
    def needs_files(self) -> bool:
        """Whether its pod needs more than the file that it logs in with."""
        return bool(self.clusters or self.schema_registry or self.masks or self.logins)
