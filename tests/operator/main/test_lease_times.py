"""How long a holder keeps a Lease that it cannot renew: never until another process can have it. In virtual time."""

from __future__ import annotations

import asyncio

import pytest

from odradek_operator.gateways.kubernetes import LEASES, Api, Conflict, Json, KubernetesError
from odradek_operator.main.lease import LeaseLost, OperatorLease
from tests.operator.support.kubernetes import MemoryKubernetes

LEASE_SECONDS = 15.0
GIVE_UP_SECONDS = 10.0


class SlowKubernetes(MemoryKubernetes):
    """Answers after `seconds`; `fails` is raised instead of an answer to a read."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds = 0.0
        self.fails: KubernetesError | None = None

    async def get(self, api: Api, namespace: str | None, name: str) -> Json | None:
        await asyncio.sleep(self.seconds)
        if self.fails is not None:
            raise self.fails
        return await super().get(api, namespace, name)

    async def replace(self, manifest: Json) -> Json:
        await asyncio.sleep(self.seconds)
        return await super().replace(manifest)


def lease(kubernetes: MemoryKubernetes) -> OperatorLease:
    return OperatorLease(kubernetes, namespace="system", name="l", identity="me", seconds=LEASE_SECONDS)


async def lost_after(held: OperatorLease, *, match: str = "could not be renewed") -> float:
    """How many seconds a holder continues."""
    began = asyncio.get_running_loop().time()
    with pytest.raises(LeaseLost, match=match):
        await held.keep()
    return asyncio.get_running_loop().time() - began


async def test_a_holder_without_answers_gives_up_in_time() -> None:
    kubernetes = SlowKubernetes()
    held = lease(kubernetes)
    await held.acquire()
    kubernetes.seconds = 1000
    assert await lost_after(held) == pytest.approx(GIVE_UP_SECONDS)


async def test_a_renewal_counts_from_when_it_was_asked_for() -> None:
    kubernetes = SlowKubernetes()
    held = lease(kubernetes)
    await held.acquire()
    kubernetes.seconds = 4.5
    loop = asyncio.get_running_loop()
    loop.call_later(7, setattr, kubernetes, "seconds", 1000)
    # It was asked for after three seconds, and answered four and a half later.
    assert await lost_after(held) == pytest.approx(3 + GIVE_UP_SECONDS)


async def test_a_renewal_that_conflicts_with_another_write_is_tried_again() -> None:
    kubernetes = SlowKubernetes()
    held = lease(kubernetes)
    await held.acquire()
    loop = asyncio.get_running_loop()
    loop.call_later(
        2, lambda: kubernetes.objects.merge(LEASES, "system", "l", {"metadata": {"annotations": {"a": "b"}}})
    )
    loop.call_later(60, setattr, kubernetes, "seconds", 1000)
    assert await lost_after(held) > 60


@pytest.mark.parametrize("seconds", [0.0, 1000.0])
async def test_a_conflict_that_cannot_be_looked_into_is_a_renewal_that_failed(seconds: float) -> None:
    """The API server goes away between the refusal and the read of the Lease's holder."""

    class Conflicting(SlowKubernetes):
        async def replace(self, manifest: Json) -> Json:
            raise Conflict("the object has been modified", status=409)

    kubernetes = Conflicting()
    held = lease(kubernetes)
    await held.acquire()
    kubernetes.seconds, kubernetes.fails = seconds, KubernetesError("not now")
    assert await lost_after(held) == pytest.approx(GIVE_UP_SECONDS)
