"""The console of a Cluster: its pages in a browser, and the peers that reach them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Final

from odradek_operator.resources.pods import Pod, Resources
from odradek_operator.resources.schema import Flag, OpenList, Text
from odradek_operator.resources.security import SECRET_NAME
from odradek_operator.resources.structure import Doc, Listing, Nested, Rule

HOSTS_MAX: Final = 32

_HOST: Final = Text(
    min_length=1,
    max_length=253,
    pattern=r"^[a-zA-Z0-9]([a-zA-Z0-9.-]*[a-zA-Z0-9])?$",
    what="a host name without scheme and port, as console.example.org",
)

CONSOLE_RULE: Final = Rule(
    "!has(self.console) || has(self.console.user) || !has(self.internalListener) || "
    "!has(self.internalListener.authentication)",
    "clients of the internal listener log in: give console.user, a User of this Cluster",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConsole:
    """The console of a Cluster. It has one pod: what it has asked is shared by all viewers."""

    user: Annotated[
        str | None,
        SECRET_NAME,
        Doc(
            "The User of this Cluster by which the console logs in: viewers see what it may see. It is needed where "
            "internalListener has an authentication."
        ),
    ] = None
    allow_changes: Annotated[
        bool,
        Flag(),
        Doc(
            "Let viewers produce records, make, change and delete topics, and reset offsets. The console has no login "
            "of its own."
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
