"""Days of a Cluster with everything that people, nodes and brokers do to it, and days of an operator with a bug."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from odradek_operator.foundation.keys import Key
from odradek_operator.gateways.cluster_admin import RestartAnswer
from odradek_operator.gateways.kubernetes import PODS, SERVICE_ACCOUNTS, VOLUME_CLAIMS, Json, NotFound
from odradek_operator.reconcilers.cluster import reconciler as module
from odradek_operator.reconcilers.cluster.reconciler import ClusterReconciler
from tests.operator.day.day import Broken, Day
from tests.operator.support.kubernetes import MemoryKubernetes

pytestmark = [pytest.mark.thorough, pytest.mark.virtual]

SEEDS_TO_FIND_MAX = 12


@pytest.mark.parametrize("seed", range(1, 7))
def test_a_day_ends_as_a_new_cluster_begins(seed: int) -> None:
    Day(seed, hours=3).play()


def forget_to_ask_brokers(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RestartAnswer, "allowed", property(lambda answer: True))


def overlook_the_pause(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(module, "is_paused", lambda body: False)


def put_no_account_back(patch: pytest.MonkeyPatch) -> None:
    apply = MemoryKubernetes.apply

    async def apply_some(self: MemoryKubernetes, manifest: Json, **options: bool) -> Json:
        name = manifest["metadata"]["name"]
        is_known = ("apply", SERVICE_ACCOUNTS.kind, name) in self.written
        if is_known and self.objects.get(SERVICE_ACCOUNTS, "default", name) is None:
            return manifest
        return await apply(self, manifest, **options)

    patch.setattr(MemoryKubernetes, "apply", apply_some)


def remove_the_volume_of_a_lost_pod(patch: pytest.MonkeyPatch) -> None:
    reconcile = ClusterReconciler.reconcile

    async def reconcile_and_clear(self: ClusterReconciler, key: Key) -> float | None:
        after = await reconcile(self, key)
        kubernetes = self._environment.kubernetes
        for claim in await kubernetes.list(VOLUME_CLAIMS, "default"):
            name = str(claim["metadata"]["name"])
            if await kubernetes.get(PODS, "default", name.removeprefix("data-")) is None:
                try:
                    await kubernetes.delete(VOLUME_CLAIMS, "default", name)
                except NotFound:
                    continue
        return after

    patch.setattr(ClusterReconciler, "reconcile", reconcile_and_clear)


@pytest.mark.parametrize(
    ("plant", "likely", "words"),
    [
        (forget_to_ask_brokers, ("roll_pod", "fall_behind"), "whose restart is not safe"),
        (overlook_the_pause, ("pause", "lose_pod"), "the Cluster is paused, and the operator does"),
        (
            put_no_account_back,
            ("delete_supporting",),
            "serviceaccounts: too many are|the Cluster is not ready",
        ),
        (remove_the_volume_of_a_lost_pod, ("lose_pod",), "which holds data that nobody gave up"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_planted_bug_is_found(
    plant: Callable[[pytest.MonkeyPatch], None],
    likely: tuple[str, ...],
    words: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plant(monkeypatch)
    found = ""
    for seed in range(1, SEEDS_TO_FIND_MAX):
        try:
            Day(seed, hours=2, likely=likely).play()
        except Broken as broken:
            found = str(broken)
            break
    assert re.search(words, found), found
