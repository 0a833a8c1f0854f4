"""External listeners: how clients outside the Kubernetes cluster reach each broker by an address of its own.

A client asks any broker for the cluster, and then connects to the partitions' leaders. So every broker must advertise
an external address that leads to it alone. The address comes from the Service that the operator makes for each broker,
or from a template here where external names are better.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, ClassVar, Final

from odradek_operator.resources.schema import Choice, Flag, Text, Whole
from odradek_operator.resources.security import (
    AUTHENTICATION,
    AUTHENTICATION_DOC,
    CERTIFICATE,
    CERTIFICATE_DOC,
    CERTIFICATE_RULES,
    TLS,
    ListenerAuthentication,
    ListenerCertificate,
)
from odradek_operator.resources.structure import Doc, Listing, Nested, Rule, Table

FIRST_PORT: Final = 9094
LAST_PORT: Final = 9199
LISTENERS_MAX: Final = 16
_ANNOTATIONS = Table(Text(max_length=4096), max_entries=64)
# Names of hosts, addresses, and the words in braces that stand for what differs between brokers.
_HOST = Text(
    pattern=r"^([A-Za-z0-9.:-]|\{broker\}|\{cluster\}|\{namespace\}|\{listener\}|\{nodeIP\})+$",
    max_length=253,
    min_length=1,
    what="a host name or address, with {broker}, {cluster}, {namespace}, {listener} or {nodeIP} in it",
)


class ListenerType(StrEnum):
    """From where a listener can be reached."""

    INTERNAL = "Internal"
    NODE_PORT = "NodePort"
    LOAD_BALANCER = "LoadBalancer"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerAddress:
    """The address that is advertised to clients for one broker."""

    broker: Annotated[int, Whole(), Doc("The broker's number.")]
    host: Annotated[str | None, _HOST, Doc("The host that is advertised to clients.")] = None
    port: Annotated[
        int | None, Whole(minimum=1, maximum=65_535), Doc("The port that is advertised to clients.")
    ] = None
    node_port: Annotated[
        int | None, Whole(minimum=1, maximum=65_535), Doc("The port of the nodes that leads to this broker.")
    ] = None
    load_balancer_ip: Annotated[
        str | None, Text(max_length=64), Doc("The address to ask the load balancer for.")
    ] = None
    annotations: Annotated[
        Mapping[str, str] | None, _ANNOTATIONS, Doc("More annotations of this broker's Service.")
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterListener:
    """One listener besides the internal one at 9092, which is always there."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "self.type != 'Internal' || !has(self.advertisedHost) || !self.advertisedHost.contains('{nodeIP}')",
            "an Internal listener is reached by a Service, not by a node: leave {nodeIP} out of advertisedHost",
        ),
        Rule(
            "!(self.name in ['internal', 'http', 'controller', 'replication'])",
            "internal, http, controller and replication are names of ports that brokers and controllers have already: "
            "take another",
        ),
        *CERTIFICATE_RULES,
    )

    name: Annotated[
        str,
        Text(
            pattern=r"^[a-z]([a-z0-9-]{0,13}[a-z0-9])?$",
            min_length=1,
            max_length=15,
            what="a short DNS label",
        ),
        Doc("The listener's name, and part of its Services' names."),
    ]
    type: Annotated[
        ListenerType,
        Choice(ListenerType),
        Doc(
            "`NodePort`: a port of every node for each broker. `LoadBalancer`: a load balancer for each. `Internal`: a "
            "Service for each broker, for a way in of your own."
        ),
    ]
    port: Annotated[
        int,
        Whole(minimum=FIRST_PORT, maximum=LAST_PORT),
        Doc("The port of the brokers, and of the Services: 9094 or above."),
    ]
    tls: Annotated[bool, TLS, Doc("Encrypt connections.")] = False
    authentication: Annotated[ListenerAuthentication | None, AUTHENTICATION, AUTHENTICATION_DOC] = None
    certificate: Annotated[ListenerCertificate | None, CERTIFICATE, CERTIFICATE_DOC] = None
    advertised_host: Annotated[
        str | None,
        _HOST,
        Doc(
            "The host that is advertised to clients, a template: `broker-{broker}.example.com`. Without it: the "
            "address of the node that a broker runs on, or what the load balancer got."
        ),
    ] = None
    advertised_port: Annotated[
        int | None,
        Whole(minimum=1, maximum=65_535),
        Doc(
            "The port that is advertised to clients for broker 0. That of broker N is N higher where type is NodePort."
        ),
    ] = None
    brokers: Annotated[
        tuple[BrokerAddress, ...],
        Listing(Nested(BrokerAddress), max_items=128, keys=("broker",)),
        Doc("What is advertised for single brokers instead."),
    ] = ()
    annotations: Annotated[
        Mapping[str, str] | None,
        _ANNOTATIONS,
        Doc("More annotations of the Services, as load balancers read."),
    ] = None
    load_balancer_source_ranges: Annotated[
        tuple[str, ...] | None,
        Listing(Text(max_length=64), max_items=64),
        Doc("The client addresses that load balancers admit, as 10.0.0.0/8. Without it: all."),
    ] = None
    load_balancer_class: Annotated[str | None, Text(max_length=253), Doc("Which load balancers to use.")] = (
        None
    )
    local_traffic: Annotated[
        bool | None,
        Flag(),
        Doc("Let traffic in only by the node that the broker runs on: clients' own addresses are seen then."),
    ] = None
