"""A Cluster with TLS, logins and rights: programs and a Spark job connect by the Secrets of Users.

Upgrades of Helm's releases and new keys of the authorities go by unnoticed.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from e2e import boot
from e2e.conftest import READY_SECONDS_MAX, uids
from e2e.extra import new_keys
from e2e.install import helm, upgrade_operator
from e2e.kube import Kube, KubectlError, Resource, until
from tests.support.java import java_home, pyspark_jars

EXAMPLES = boot.CHECKOUT / "manifests" / "examples" / "spark"
JOB_SECONDS_MAX = 360
CLAIM = "spark-output"
NAMESPACE = "shared"
PODS = ("shop", "reports", "tills")
RECORDS = 300
SMALL = {"requests": {"cpu": "20m", "memory": "64Mi"}}
CLUSTER: Resource = {
    "apiVersion": "odradek.io/v1",
    "kind": "Cluster",
    "metadata": {"name": "shared"},
    "spec": {
        "zookeeper": {"servers": {"replicas": 1, "storage": {"size": "1Gi"}, "resources": SMALL}},
        "controllers": {"replicas": 1, "resources": SMALL},
        "brokers": {"replicas": 2, "storage": {"size": "1Gi"}, "resources": SMALL},
        "internalListener": {"authentication": {"type": "scram-sha-512"}},
        "authorization": {},
        "certificates": {"authorityOverlapDays": 0},
        "listeners": [
            {
                "name": "mutual",
                "type": "Internal",
                "port": 9094,
                "tls": True,
                "authentication": {"type": "tls"},
            }
        ],
    },
}
WRITES: Resource = {"resource": {"type": "topic", "name": "orders"}, "operations": ["Write", "Describe"]}
READS: Resource = {"resource": {"type": "topic", "name": "orders"}, "operations": ["Read", "DescribeConfigs"]}


def of(kind: str, name: str, **spec: Any) -> Resource:
    """A resource of the Cluster."""
    about = {"name": name, "namespace": NAMESPACE}
    return {
        "apiVersion": "odradek.io/v1",
        "kind": kind,
        "metadata": about,
        "spec": {"cluster": "shared", **spec},
    }


def program(user: str) -> Resource:
    """A pod of a team: it mounts the Secret of its User, and nothing else says where the brokers are."""
    container = {
        "name": "program",
        "image": boot.image("broker"),
        "imagePullPolicy": "IfNotPresent",
        "command": ["sleep", "3600"],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [{"name": "user", "mountPath": "/etc/user", "readOnly": True}],
    }
    security = {
        "runAsNonRoot": True,
        "runAsUser": 10001,
        "fsGroup": 10001,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": user, "namespace": NAMESPACE},
        "spec": {
            "containers": [container],
            "securityContext": security,
            "terminationGracePeriodSeconds": 0,
            "volumes": [{"name": "user", "secret": {"secretName": user}}],
        },
    }


def ran(shared: Kube, user: str, *words: str, stdin: str | None = None) -> str:
    """What the command line prints in a team's pod."""
    return shared.inside(
        user, "odradek", "--command-config", "/etc/user/client.properties", *words, stdin=stdin
    )


def prepare_namespace(kube: Kube) -> None:
    """What the examples ask for: a service account with its rights, and a volume."""
    kube.run("apply", "-f", str(EXAMPLES / "rbac.yaml"))
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    kube.apply(
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": CLAIM}, "spec": spec}
    )


def submitted(kube: Kube, cluster: str, *arguments: str, user: str | None = None) -> subprocess.Popen[str]:
    """The example script, under way; it ends when its driver has. `user` is the User that the job connects by."""
    environment = {
        **os.environ,
        "SPARK_HOME": str(pyspark_jars().parent),
        "JAVA_HOME": java_home(),
        "IMAGE": boot.image("pipeline"),
        "CORES_REQUEST": "100m",
    }
    command = [str(EXAMPLES / "submit"), "--cluster", cluster, "--namespace", kube.namespace]
    command += ["--claim", f"{CLAIM}:/output", *(["--user", user] if user else [])]
    return subprocess.Popen(
        [*command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )


def reported_by(job: subprocess.Popen[str]) -> dict[str, Any]:
    """The line of JSON that a job prints at its end; AssertionError with its log when it failed."""
    said, errors = job.communicate(timeout=JOB_SECONDS_MAX)
    assert job.returncode == 0, f"{said}\n{errors[-4000:]}"
    reported: dict[str, Any] = json.loads(said.splitlines()[-1])
    return reported


@pytest.fixture(scope="module")
def shared(kube: Kube) -> Iterator[Kube]:
    """The namespace with the Cluster, a topic, two Users, and their pods."""
    namespace = Kube(NAMESPACE)
    namespace.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}, CLUSTER)
    upgrade_operator("--set", f"watch.namespaces={{{kube.namespace},{NAMESPACE}}}")
    try:
        namespace.apply(
            of("Topic", "orders", partitions=3, replicas=2),
            of("User", "shop", acls=[WRITES]),
            of("User", "reports", authentication={"type": "tls"}, acls=[READS]),
            of("User", "loads", acls=[READS]),
            of("User", "tills", authentication={"type": "tls"}, acls=[WRITES]),
        )
        namespace.ready("cluster", "shared", READY_SECONDS_MAX)
        namespace.ready("topic", "orders", 60)
        for name in ("shop", "reports", "loads", "tills"):
            namespace.ready("user", name, 60)
        namespace.apply(*map(program, PODS))
        namespace.run("wait", "--for=condition=Ready", *(f"pod/{one}" for one in PODS), "--timeout=120s")
        yield namespace
    finally:
        # Users wait for the operator when they are deleted, and its rights are in the namespace.
        namespace.delete("user.odradek.io", "--all")
        upgrade_operator("--set", f"watch.namespaces={{{kube.namespace}}}")
        namespace.delete("namespace", NAMESPACE)


# What a program sees of a broker's measures, with the certificate of its User or without one.
_MEASURES = """\
import ssl, sys, urllib.request
context = ssl.create_default_context(cafile="/etc/user/ca.crt")
if sys.argv[1] == "named":
    context.load_cert_chain("/etc/user/tls.crt", "/etc/user/tls.key")
host = "shared-broker-0.shared-brokers.shared.svc"
print(urllib.request.urlopen(f"https://{host}:9644/metrics", context=context).read().decode())
"""


def test_measures_have_names_for_users_that_may_describe_them(shared: Kube) -> None:
    named = shared.inside("reports", "python", "-c", _MEASURES, "named")
    assert 'odradek_log_end_offset{partition="0",topic="orders"}' in named
    unnamed = shared.inside("reports", "python", "-c", _MEASURES, "unnamed")
    assert "odradek_topics " in unnamed and "orders" not in unnamed


@pytest.mark.timeout(600)
def test_teams_do_what_their_users_may_and_a_job_loads_it(shared: Kube) -> None:
    """By a password, by a certificate, and by Spark; a rotation leaves the running program its password."""
    prepare_namespace(shared)
    lines = "".join(f"order-{number}\n" for number in range(RECORDS))
    ran(shared, "shop", "produce", "orders", stdin=lines)
    to_table = ("--topic", "orders", "--output", "/output/orders", "--report", "json")
    load = submitted(shared, "shared", "load.py", *to_table, user="loads")
    try:
        read = ran(shared, "reports", "consume", "orders", "--from-beginning")
        assert sorted(read.splitlines()) == sorted(lines.splitlines())
        for user, words in (
            ("shop", ("consume", "orders", "--from-beginning")),
            ("reports", ("produce", "orders")),
        ):
            with pytest.raises(KubectlError, match="may not do this"):
                ran(shared, user, *words, stdin="no\n")
        before = password(shared)
        shared.run("annotate", "user.odradek.io", "shop", "odradek.io/rotate=once")
        until(
            lambda: password(shared),
            lambda now: now != before,
            seconds_max=60,
            what="a new password is there",
        )
        # Its pod still has the former one, or just got the new one: both are good.
        ran(shared, "shop", "produce", "orders", stdin="after\n")
        reported = reported_by(load)
    except BaseException:
        end(load)
        raise
    assert reported["rows"] >= RECORDS, reported


@pytest.mark.timeout(300)
def test_upgrades_of_releases_leave_users_as_they_are(shared: Kube) -> None:
    """The operator's release, and one that declares a User of the Cluster; a program writes."""
    late = ["--namespace", NAMESPACE, "--set", "cluster.create=false,cluster.name=shared"]
    late += ["--set-json", f"users.late={json.dumps({'acls': [READS]})}"]
    helm("install", "teams", "helm/odradek", *late)
    shared.ready("user", "late", 60)
    names = ("shop", "reports", "loads", "tills", "late")
    secrets = {name: new_keys.files(shared, name) for name in names}
    pods = uids(shared.pods())
    with new_keys.writing(shared, "shop", "orders") as written:
        upgrade_operator("--set", "settings.resyncSeconds=60")
        helm("upgrade", "teams", "helm/odradek", *late, "--set", "users.late.quotas.consumerByteRate=1000000")
        for name in names:
            shared.ready("user", name, 60)
    written.check(kept(shared))
    assert {name: new_keys.files(shared, name) for name in names} == secrets
    now = uids(shared.pods())
    assert {name: now.get(name) for name in pods} == pods
    helm("uninstall", "teams", "--namespace", NAMESPACE, "--wait")
    until(
        lambda: {"secret": shared.get("secret", "late")},
        lambda now: now["secret"] is None,
        seconds_max=60,
        what="the Secret goes with its User",
    )


@pytest.mark.timeout(900)
def test_new_keys_of_the_authorities_fail_no_request(shared: Kube) -> None:
    """With a password and with a certificate; in the end neither the former authority nor what it signed is good."""
    users = ("shop", "tills", "reports")
    password_before, certificate_before = (new_keys.properties_of(shared, one) for one in ("shop", "tills"))

    def answers() -> list[str]:
        """To a client that trusts the former authority alone, and to one whose certificate is of the former."""
        trust = new_keys.properties_of(shared, "tills")["ssl.truststore.certificates"]
        former = certificate_before | {"ssl.truststore.certificates": trust}
        said = [new_keys.answer_to(shared, "shop", one) for one in (password_before, former)]
        return [one.partition(":")[0] for one in said]

    with (
        new_keys.writing(shared, "shop", "orders") as by_password,
        new_keys.writing(shared, "tills", "orders") as by_certificate,
    ):
        shared.run("annotate", "cluster.odradek.io", "shared", "odradek.io/rotate-authority=once")
        new_keys.await_step(shared, "shared", "following.crt", users)
        assert answers() == ["served", "served"]
        new_keys.end_step(shared, "shared")
        new_keys.await_step(shared, "shared", "former.crt", users)
        assert answers() == ["refused", "served"]
        new_keys.end_step(shared, "shared")
        new_keys.await_step(shared, "shared", None, users)
        assert answers() == ["refused", "refused"]
    for written in (by_password, by_certificate):
        written.check(kept(shared))


def kept(shared: Kube) -> set[tuple[int, int, str]]:
    """Partition, offset and value of all records, as the team `reports` reads them."""
    printed = ran(shared, "reports", "consume", "orders", "--from-beginning", "--output", "json")
    found = map(json.loads, printed.splitlines())
    return {(one["partition"], one["offset"], one["value"]) for one in found}


def password(shared: Kube) -> str:
    """The password in the Secret now."""
    found = shared.get("secret", "shop") or {}
    return base64.b64decode(found["data"]["password"]).decode()


def end(job: subprocess.Popen[str]) -> None:
    """End a job whose test has failed."""
    job.kill()
    print(json.dumps(job.communicate()[1][-3000:]))
