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

from odradek_operator.resources.schema import Choice, Flag, OpenList, Text, Whole
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
PARENTS_MAX: Final = 32
PASSED_THROUGH_PORT: Final = 443
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
    INGRESS = "Ingress"
    TLS_ROUTE = "TLSRoute"


_PASSED_THROUGH: Final = "(self.type in ['Ingress', 'TLSRoute'])"

PASSED_THROUGH: Final = frozenset({ListenerType.INGRESS, ListenerType.TLS_ROUTE})
"""The types that one port leads to, where the name in TLS picks the broker."""


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
        Mapping[str, str] | None,
        _ANNOTATIONS,
        Doc("More annotations of this broker's Service, Ingress or TLSRoute."),
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
        Rule(
            f"!{_PASSED_THROUGH} || self.tls",
            "an Ingress or TLSRoute passes TLS through, and picks the broker by the name in it: set tls to true",
        ),
        Rule(
            f"!{_PASSED_THROUGH} || (has(self.bootstrapHost) && !self.bootstrapHost.contains('{{broker}}') && "
            "!self.bootstrapHost.contains('{nodeIP}') && !self.bootstrapHost.contains(':'))",
            "an Ingress or TLSRoute needs bootstrapHost, the name at which clients begin, without {broker} or {nodeIP}",
        ),
        Rule(
            f"!{_PASSED_THROUGH} || (has(self.advertisedHost) && self.advertisedHost.contains('{{broker}}') && "
            "!self.advertisedHost.contains('{nodeIP}') && !self.advertisedHost.contains(':'))",
            "an Ingress or TLSRoute needs advertisedHost with {broker} in it: each broker has a name of its own, as "
            "broker-{broker}.example.com",
        ),
        Rule(
            f"{_PASSED_THROUGH} || !has(self.bootstrapHost)",
            "bootstrapHost is for type Ingress or TLSRoute; others begin at the address of their Service",
        ),
        Rule("self.type == 'Ingress' || !has(self.ingressClassName)", "ingressClassName is for type Ingress"),
        Rule(
            "(self.type == 'TLSRoute') == (has(self.parentRefs) && size(self.parentRefs) > 0)",
            "parentRefs names the gateways of a TLSRoute: it needs one, and other types have none",
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
            "`NodePort`: a port of every node for each broker. `LoadBalancer`: a load balancer for each. `Ingress` "
            "and `TLSRoute`: a host name for each, by which an ingress controller or a gateway picks the broker "
            "without ending TLS. `Internal`: a Service for each broker, for a way in of your own."
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
    bootstrap_host: Annotated[
        str | None,
        _HOST,
        Doc("The host at which clients begin, of an Ingress or TLSRoute: `kafka.example.com`."),
    ] = None
    ingress_class_name: Annotated[
        str | None,
        Text(max_length=253),
        Doc("The controller of an Ingress; it must pass TLS through. Without it: Kubernetes' default class."),
    ] = None
    parent_refs: Annotated[
        tuple[Mapping[str, object], ...],
        OpenList("list of the Gateway API's ParentReference", max_items=PARENTS_MAX),
        Doc("The gateways of a TLSRoute, each with `name`, and mostly `namespace` and `sectionName`."),
    ] = ()
    advertised_port: Annotated[
        int | None,
        Whole(minimum=1, maximum=65_535),
        Doc(
            "The port that is advertised to clients for broker 0. That of broker N is N higher where type is NodePort. "
            "Without it: 443 for an Ingress or TLSRoute, else that of the Service."
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
        Doc("More annotations of the Services, as load balancers read, or of the Ingresses and TLSRoutes."),
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
