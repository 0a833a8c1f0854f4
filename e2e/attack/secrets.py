"""Secrets that are deleted, or that are not there yet."""

from __future__ import annotations

from e2e.attack.attacks import attack
from e2e.attack.field import Field, wait_seconds
from e2e.conftest import pods_by_name
from e2e.test_4_faults import uid_of


@attack(
    "a listener names a certificate that is not there: no broker is replaced, and the Cluster says what is missing"
)
def certificate_missing(field: Field) -> None:
    pods = field.pods()
    listener = {
        "name": "extra",
        "type": "Internal",
        "port": 9095,
        "tls": True,
        "authentication": {"type": "scram-sha-512"},
        "certificate": {"secretName": "not-there"},
    }
    field.kube.patch("cluster", "demo", {"spec": {"listeners": [listener]}})
    try:
        said = field.condition(field.kube, "cluster", "demo", "Ready", "ReferenceMissing", 60)
        assert "not-there" in said, said
        wait_seconds(10)
        assert field.pods() == pods
    finally:
        field.kube.patch("cluster", "demo", {"spec": {"listeners": []}})
    field.whole()
    assert field.pods() == pods, "no pod was replaced for it"


# The last of them: hosts that are new from here on need the new authority's certificate.
@attack("the authority's Secret is deleted: clients that trust the former one go on, and a Warning says so")
def authority_deleted(field: Field) -> None:
    before = uid_of(field.kube, "secret", "demo-cluster-ca")
    field.kube.delete("secret", "demo-cluster-ca")
    field.until(
        lambda: uid_of(field.kube, "secret", "demo-cluster-ca") not in ("", before), "there is another one"
    )
    field.until(lambda: "uthority" in field.events(field.kube), "an event says so")
    # The honest clients trust what they read when they began, and connect again.
    pods = pods_by_name(field.kube, "broker")
    field.kube.kill_pod("demo-broker-0")
    field.until(
        lambda: pods_by_name(field.kube, "broker").get("demo-broker-0") not in (None, pods["demo-broker-0"]),
        "a broker is made again, with the new authority",
    )
