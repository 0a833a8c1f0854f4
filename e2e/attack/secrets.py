"""Secrets that are deleted, or that are not there yet."""

from __future__ import annotations

from e2e.attack.attacks import attack
from e2e.attack.field import Field
from e2e.conftest import pods_by_name
from e2e.test_4_faults import uid_of


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
