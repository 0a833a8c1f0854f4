"""Secrets that are deleted, or that are not there yet."""

from __future__ import annotations

from e2e.attack.attacks import attack
from e2e.attack.field import Field, of, wait_seconds
from e2e.attack.logins import login_of, said_to
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


@attack("the Secrets of brokers, and of a User, are deleted: they are made again, and clients go on")
def other_secrets_deleted(field: Field) -> None:
    name = field.word()
    field.kube.apply(of("User", name, cluster="demo"))
    field.kube.ready("user", name, 60)
    assert said_to(field, *login_of(field.kube, name)) == "yes"
    secrets = ("demo-broker-tls", "demo-clients-ca", name)
    before = {one: uid_of(field.kube, "secret", one) for one in secrets}
    assert all(before.values()), before
    field.kube.delete("secret", *secrets)
    field.until(
        lambda: all(uid_of(field.kube, "secret", one) not in ("", uid) for one, uid in before.items()),
        "all are there again",
    )
    field.until(lambda: field.is_ready(field.kube, "user", name), "the User is Ready")
    field.whole()
    field.until(lambda: said_to(field, *login_of(field.kube, name)) == "yes", "its new Secret lets it in", 60)
    field.kube.delete("user", name)


# The last of them: a certificate for other names can only be signed by the new authority from here on.
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
