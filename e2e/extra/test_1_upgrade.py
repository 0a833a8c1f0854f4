"""From the last release to this checkout and back, operator and brokers, under load: no acknowledged record is lost."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from e2e import boot
from e2e.conftest import client_pod, declare_topic, pods_by_name, settled
from e2e.extra import last_release
from e2e.install import BOOTSTRAP, NAMESPACE, OPERATOR_NAMESPACE, OPERATOR_RELEASE, RELEASE, clear, helm
from e2e.kube import Kube, Resource, until
from e2e.workload import CLIENT_POD, load_on

STEP_SECONDS_MAX = 600.0
_OPERATOR_AT = ("--namespace", OPERATOR_NAMESPACE, "--wait", "--timeout", "5m")
_CLUSTER_AT = ("--namespace", NAMESPACE)


@pytest.fixture(scope="module")
def upgraded(kubernetes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kube]:
    """A namespace where the last release has been installed by its own charts, with three brokers."""
    tree = last_release.unpack(tmp_path_factory.mktemp("last-release"))
    last_release.load_images(tree)
    kube = Kube(NAMESPACE)
    clear(kube)
    kube.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    helm(
        *("install", OPERATOR_RELEASE, str(tree / "helm" / "odradek-operator"), "--create-namespace"),
        *_OPERATOR_AT,
        *("--set", f"watch.namespaces={{{NAMESPACE}}}", *_tags(last_release.tag())),
    )
    helm("install", RELEASE, str(tree / "helm" / "odradek"), *_CLUSTER_AT)
    kube.apply(client_pod())
    kube.ready("cluster", RELEASE, STEP_SECONDS_MAX)
    kube.run("wait", "--for=condition=Ready", f"pod/{CLIENT_POD}", "--timeout=120s")
    yield kube
    clear(kube)


def _tags(tag: str) -> list[str]:
    return ["--set-string", f"image.tag={tag},brokerImage.tag={tag}"]


def runs(kube: Kube, tag: str) -> Resource:
    """The Cluster once all of its brokers and controllers run images of this tag."""
    until(
        lambda: kube.get("cluster", RELEASE),
        lambda one: one.get("status", {}).get("version") == tag,
        seconds_max=STEP_SECONDS_MAX,
        what=f"all brokers run {tag}",
    )
    cluster = settled(kube, STEP_SECONDS_MAX)
    for pod in [
        *kube.pods("app.kubernetes.io/component=broker"),
        *kube.pods("app.kubernetes.io/component=controller"),
    ]:
        assert pod["spec"]["containers"][0]["image"].endswith(f":{tag}"), pod["metadata"]["name"]
    return cluster


def test_the_last_release_is_upgraded_and_taken_back_under_load(upgraded: Kube) -> None:
    kube, old, new = upgraded, last_release.tag(), boot.IMAGE_TAG
    declare_topic(kube, "orders", partitions=6, replicas=3)
    before = pods_by_name(kube, "broker")
    cluster_id = runs(kube, old)["status"]["clusterId"]
    with load_on(kube, BOOTSTRAP, "orders") as forth:
        began = time.monotonic()
        helm(
            *("upgrade", OPERATOR_RELEASE, "helm/odradek-operator", "--reset-then-reuse-values"),
            *(*_OPERATOR_AT, *_tags(new)),
        )
        helm("upgrade", RELEASE, "helm/odradek", *_CLUSTER_AT, "--reset-then-reuse-values")
        status = runs(kube, new)["status"]
        print(f"{old} to {new}: {time.monotonic() - began:.0f} s")
    assert set(pods_by_name(kube, "broker").values()).isdisjoint(before.values()), "every broker was replaced"
    assert (status["clusterId"], status["newestVersion"]) == (cluster_id, old), (
        "of one series, the first counts"
    )
    forth.check_promises(kube, BOOTSTRAP)
    kube.ready("topic", "orders", 60)
    with load_on(kube, BOOTSTRAP, "orders") as back:
        began = time.monotonic()
        helm("rollback", RELEASE, "1", *_CLUSTER_AT)
        helm("rollback", OPERATOR_RELEASE, "1", *_OPERATOR_AT)
        assert runs(kube, old)["status"]["clusterId"] == cluster_id
        print(f"{new} to {old}: {time.monotonic() - began:.0f} s")
    back.check_promises(kube, BOOTSTRAP)
    # What the first load was promised is still there, too.
    forth.check_promises(kube, BOOTSTRAP)


def test_an_upgrade_to_an_operator_of_unknown_brokers_changes_nothing(upgraded: Kube) -> None:
    kube = upgraded
    helm(
        *("upgrade", OPERATOR_RELEASE, "helm/odradek-operator", "--reset-then-reuse-values"),
        *(*_OPERATOR_AT, *_tags(boot.IMAGE_TAG)),
    )
    runs(kube, boot.IMAGE_TAG)
    before = pods_by_name(kube, "broker")
    kube.patch("cluster", RELEASE, {"spec": {"image": boot.image("broker").rpartition(":")[0] + ":9.0.0"}})
    refused = until(
        lambda: kube.get("cluster", RELEASE),
        lambda one: any(found["reason"] == "UnknownVersion" for found in one["status"]["conditions"]),
        seconds_max=60,
        what="the image is refused",
    )
    assert refused["status"]["brokers"]["ready"] == 3 and pods_by_name(kube, "broker") == before
    with pytest.raises(Exception, match="pre-upgrade hooks failed"):
        helm(
            *("upgrade", OPERATOR_RELEASE, "helm/odradek-operator", "--reuse-values", *_OPERATOR_AT),
            *("--set", "settings.workers=4"),
        )
    logs = Kube(OPERATOR_NAMESPACE).run("logs", "job/odradek-operator-check")
    assert "problem: Cluster demo/demo: UnknownVersion" in logs
