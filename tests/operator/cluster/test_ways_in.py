"""Listeners by Ingress and TLSRoute: a host for each broker behind one port, with Kubernetes in memory."""

from __future__ import annotations

import base64

import pytest
from cryptography import x509

from odradek_operator.gateways.kubernetes import (
    INGRESSES,
    SECRETS,
    SERVICES,
    TLS_ROUTES,
    Api,
    Forbidden,
    Json,
    NotFound,
)
from tests.operator.support.cluster_world import BROKER_PODS, ClusterWorld

INGRESS: Json = {
    "name": "web",
    "type": "Ingress",
    "port": 9095,
    "tls": True,
    "ingressClassName": "nginx",
    "bootstrapHost": "{cluster}.example.org",
    "advertisedHost": "{cluster}-{broker}.example.org",
    "annotations": {"external-dns.alpha.kubernetes.io/ttl": "60"},
    "brokers": [{"broker": 1, "annotations": {"example.org/weight": "2"}}],
}
ROUTE: Json = {
    "name": "gate",
    "type": "TLSRoute",
    "port": 9096,
    "tls": True,
    "advertisedPort": 8443,
    "bootstrapHost": "kafka.example.org",
    "advertisedHost": "broker-{broker}.example.org",
    "parentRefs": [{"name": "edge", "namespace": "gateways", "sectionName": "kafka"}],
}
GATEWAY_API = "gateway.networking.k8s.io"


def world_with(*listeners: Json) -> ClusterWorld:
    world = ClusterWorld({"listeners": list(listeners)})
    world.settle()
    return world


def hide_routes(world: ClusterWorld, *versions: str) -> None:
    for version in versions:
        kind = f"{GATEWAY_API}/{version}/tlsroutes"
        world.kubernetes.unserved[kind] = NotFound("404 page not found", status=404)


def names(world: ClusterWorld, api: Api) -> list[str]:
    return [body["metadata"]["name"] for body in world.objects.list(api, "default")]


def test_an_ingress_for_each_broker_passes_tls_to_its_service() -> None:
    world = world_with(INGRESS)
    assert names(world, INGRESSES) == ["events-web-0", "events-web-1", "events-web-2", "events-web-bootstrap"]
    made = world.body(INGRESSES, "events-web-1")
    assert made["spec"]["ingressClassName"] == "nginx"
    assert made["spec"]["tls"] == [{"hosts": ["events-1.example.org"]}]
    (rule,) = made["spec"]["rules"]
    assert rule["host"] == "events-1.example.org"
    backend = {"service": {"name": "events-web-1", "port": {"number": 9095}}}
    assert rule["http"]["paths"] == [{"path": "/", "pathType": "Prefix", "backend": backend}]
    annotations = made["metadata"]["annotations"]
    assert annotations["nginx.ingress.kubernetes.io/ssl-passthrough"] == "true"
    assert annotations["external-dns.alpha.kubernetes.io/ttl"] == "60"
    assert annotations["example.org/weight"] == "2"
    service = world.body(SERVICES, "events-web-1")
    assert service["spec"]["type"] == "ClusterIP" and "externalTrafficPolicy" not in service["spec"]
    assert "example.org/weight" not in (service["metadata"].get("annotations") or {})
    (listener,) = world.status["listeners"]
    assert listener["bootstrap"] == "events.example.org:443"
    assert listener["brokers"] == [f"events-{broker}.example.org:443" for broker in range(3)]


def test_the_certificate_has_all_hosts() -> None:
    world = world_with(INGRESS, ROUTE)
    pem = base64.b64decode(world.body(SECRETS, "events-broker-tls")["data"]["tls.crt"])
    found = x509.load_pem_x509_certificate(pem).extensions.get_extension_for_class(
        x509.SubjectAlternativeName
    )
    hosts = set(found.value.get_values_for_type(x509.DNSName))
    assert {
        "events.example.org",
        "events-2.example.org",
        "kafka.example.org",
        "broker-0.example.org",
    } <= hosts


@pytest.mark.parametrize("version", ["v1", "v1alpha3", "v1alpha2"])
def test_a_route_is_made_in_the_version_that_is_served(version: str) -> None:
    world = ClusterWorld({"listeners": [ROUTE]})
    versions = ("v1", "v1alpha3", "v1alpha2")
    hide_routes(world, *versions[: versions.index(version)])
    world.settle()
    made = world.body(TLS_ROUTES, "events-gate-2")
    assert made["apiVersion"] == f"{GATEWAY_API}/{version}"
    assert made["spec"]["hostnames"] == ["broker-2.example.org"]
    (parent,) = made["spec"]["parentRefs"]
    assert (parent["kind"], parent["name"], parent["sectionName"]) == ("Gateway", "edge", "kafka")
    (rule,) = made["spec"]["rules"]
    assert [(one["name"], one["port"]) for one in rule["backendRefs"]] == [("events-gate-2", 9096)]
    assert world.body(TLS_ROUTES, "events-gate-bootstrap")["spec"]["hostnames"] == ["kafka.example.org"]
    (listener,) = world.status["listeners"]
    assert listener["bootstrap"] == "kafka.example.org:8443"
    assert listener["brokers"][2] == "broker-2.example.org:8443"


def test_without_the_gateway_api_a_condition_says_so_and_brokers_serve() -> None:
    world = ClusterWorld({"listeners": [INGRESS, ROUTE]})
    hide_routes(world, "v1", "v1alpha3", "v1alpha2")
    for _ in range(20):
        after = world.look()
    assert after is not None and after <= 30, "no event shows that the definitions are there"
    assert set(world.pods()) == BROKER_PODS and world.condition("Ready")["status"] == "True"
    listeners = world.condition("Listeners")
    assert (listeners["status"], listeners["reason"]) == ("False", "NoGatewayApi")
    assert "lead to the brokers for gate" in listeners["message"]
    assert names(world, TLS_ROUTES) == [] and len(names(world, INGRESSES)) == 4
    before = world.pods()
    world.kubernetes.unserved.clear()
    world.settle()
    assert len(names(world, TLS_ROUTES)) == 4 and world.condition("Listeners") == {}
    assert world.pods() == before, "the addresses were known, so no broker restarts"


def test_without_the_right_to_see_them_brokers_serve_all_the_same() -> None:
    world = ClusterWorld({"listeners": [INGRESS]})
    refusal = Forbidden("ingresses.networking.k8s.io is forbidden", status=403)
    world.kubernetes.unserved["networking.k8s.io/v1/ingresses"] = refusal
    world.look(20)
    assert set(world.pods()) == BROKER_PODS and names(world, INGRESSES) == []
    listeners = world.condition("Listeners")
    assert (listeners["status"], listeners["reason"]) == ("False", "Forbidden")
    assert "may not see ingresses" in listeners["message"]


def test_a_route_that_a_gateway_does_not_take_is_named() -> None:
    world = world_with(ROUTE)
    refused = {
        "type": "Accepted",
        "status": "False",
        "reason": "NoMatchingListenerHostname",
        "message": "no host",
    }
    world.set_status(
        TLS_ROUTES,
        "events-gate-0",
        {"parents": [{"parentRef": {"name": "edge"}, "conditions": [refused]}]},
    )
    assert world.look() is not None
    listeners = world.condition("Listeners")
    assert (listeners["status"], listeners["reason"]) == ("False", "NotAccepted")
    assert listeners["message"] == "the gateway edge does not take the TLSRoute events-gate-0: no host"
    accepted = {**refused, "status": "True"}
    world.set_status(
        TLS_ROUTES,
        "events-gate-0",
        {"parents": [{"parentRef": {"name": "edge"}, "conditions": [accepted]}]},
    )
    world.settle()
    assert world.condition("Listeners") == {}


def test_they_follow_the_number_of_brokers_and_go_with_their_listener() -> None:
    world = world_with(INGRESS, ROUTE)
    world.change(spec__brokers={"replicas": 4})
    world.settle()
    assert "events-web-3" in names(world, INGRESSES) and "events-gate-3" in names(world, TLS_ROUTES)
    world.brokers.replicas = {}
    world.change(spec__brokers={"replicas": 3})
    world.settle()
    world.look(2)
    assert "events-web-3" not in names(world, INGRESSES)
    world.change(spec__listeners=[ROUTE])
    world.settle()
    assert names(world, INGRESSES) == [] and len(names(world, TLS_ROUTES)) == 4
    world.change(spec__listeners=[])
    world.settle()
    assert names(world, TLS_ROUTES) == []


def test_a_cluster_without_them_never_asks_for_them(world: ClusterWorld) -> None:
    hide_routes(world, "v1", "v1alpha3", "v1alpha2")
    world.kubernetes.unserved["networking.k8s.io/v1/ingresses"] = Forbidden("no", status=403)
    world.change(spec__listeners=[{"name": "inside", "type": "Internal", "port": 9094}])
    world.settle()
    assert world.condition("Listeners") == {}
