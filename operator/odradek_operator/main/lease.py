"""One active operator: the holder of the Lease (coordination.k8s.io), as Kubernetes' own controllers do it.

A holder renews; one that sees the same renewal for the lease's whole length, by its own clock, may take it over. A
holder that could not renew for two thirds of that length gives up before another can have taken it. Its process ends
and interrupts what is in progress; the successor begins from what is there.

A clean stop hands the Lease back, so that the next one need not wait. A holder may be unable to: Helm's uninstall takes
its role away first. Then the next one takes over when that pod is gone and a due renewal did not come. A pod that was
removed by force may still run.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime
from typing import Final

from odradek_operator.gateways.kubernetes import (
    LEASES,
    PODS,
    Conflict,
    Forbidden,
    Json,
    Kubernetes,
    KubernetesError,
    metadata,
)

logger = logging.getLogger(__name__)

HOLDER_POD: Final = "odradek.io/holder-pod"
"""The annotation that says which pod the holder is, in the Lease's namespace."""
_RENEWAL_PART: Final = 1 / 5
_GIVE_UP_PART: Final = 2 / 3
# More than one renewal of a holder that is there has come by then.
_ORPHANED_PART: Final = 1 / 4


class LeaseLost(Exception):
    """The Lease could not be renewed in time, or another process has it."""


class OperatorLease:
    """A Lease that this process wants. `seconds` is for how long a silent holder keeps it, `pod` the pod that this
    process is, if it is one.
    """

    def __init__(
        self,
        kubernetes: Kubernetes,
        *,
        namespace: str,
        name: str,
        identity: str,
        seconds: float = 15.0,
        pod: str = "",
    ) -> None:
        self._kubernetes = kubernetes
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._seconds = seconds
        self._pod = pod
        self._held: Json | None = None
        self.stands_by = False
        """Whether another process was seen to hold it."""

    @property
    def held(self) -> Json | None:
        """The Lease while this process holds it."""
        return self._held

    @property
    def is_held(self) -> bool:
        """Whether this process holds it."""
        return self._held is not None

    async def acquire(self) -> None:
        """Wait until the Lease is ours. The API server's silence only makes it take longer."""
        loop = asyncio.get_running_loop()
        seen: tuple[object, object] | None = None
        seen_at = loop.time()
        holder_told = ""
        while True:
            try:
                lease = await self._kubernetes.get(LEASES, self._namespace, self._name)
                if lease is None:
                    self._held = await self._kubernetes.create(self._manifest(transitions=0))
                    break
                spec = lease.get("spec") or {}
                holder = spec.get("holderIdentity") or ""
                if (holder, spec.get("renewTime")) != seen:
                    seen, seen_at = (holder, spec.get("renewTime")), loop.time()
                is_free = not holder or holder == self._identity
                if is_free or await self._is_left(lease, loop.time() - seen_at):
                    self._held = await self._kubernetes.replace(self._change_holder(lease, holder))
                    break
                self.stands_by = True
                if holder != holder_told:
                    logger.info("standing by: %s holds the Lease %s/%s", holder, self._namespace, self._name)
                    holder_told = holder
            except Conflict:
                pass  # Another process was quicker; the next look names it.
            except KubernetesError as failure:
                logger.warning("the Lease %s/%s cannot be had now: %s", self._namespace, self._name, failure)
            await asyncio.sleep(self._seconds / 7.5)
        logger.info("%s holds the Lease %s/%s", self._identity, self._namespace, self._name)

    async def keep(self) -> None:
        """Renew for as long as it goes well. Raises LeaseLost; never returns."""
        loop = asyncio.get_running_loop()
        renewed_at = loop.time()
        while True:
            # One that waits for the Lease counts from when a renewal was written, which is after it was asked for.
            ends_at = renewed_at + self._seconds * _GIVE_UP_PART
            await asyncio.sleep(min(self._seconds * _RENEWAL_PART, max(0.0, ends_at - loop.time())))
            asked_at = loop.time()
            if asked_at >= ends_at:
                self._held = None
                raise LeaseLost(
                    f"the Lease {self._namespace}/{self._name} could not be renewed for {asked_at - renewed_at:.0f} s"
                )
            try:
                async with asyncio.timeout_at(min(asked_at + self._seconds / 3, ends_at)):
                    await self._renew()
                renewed_at = asked_at
            except (KubernetesError, TimeoutError) as failure:
                logger.warning("the Lease was not renewed: %s", str(failure) or "no answer")

    async def release(self) -> None:
        """Hand it back, if it is ours."""
        if self._held is None:
            return
        try:
            try:
                await self._hand_back(self._held)
            except Conflict:
                # The end came during a renewal: it was written, and its answer was not waited for.
                await self._read_again()
                await self._hand_back(self._held)
        except (KubernetesError, LeaseLost) as failure:
            logger.warning("the Lease was not handed back; it ends by itself: %s", failure)
        finally:
            self._held = None

    async def _hand_back(self, held: Json) -> None:
        held["spec"] |= {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": _micro_time()}
        await self._kubernetes.replace(held)

    async def _is_left(self, lease: Json, silence_seconds: float) -> bool:
        """Whether the holder is known to be gone, or was silent for the whole length."""
        length = float(lease["spec"].get("leaseDurationSeconds") or self._seconds)
        if silence_seconds >= length:
            return True
        pod = (metadata(lease).get("annotations") or {}).get(HOLDER_POD)
        if not pod or silence_seconds < length * _ORPHANED_PART:
            return False
        try:
            is_gone = await self._kubernetes.get(PODS, self._namespace, pod) is None
        except Forbidden:
            return False
        if is_gone:
            logger.info("the pod %s is gone that holds the Lease %s/%s", pod, self._namespace, self._name)
        return is_gone

    def _change_holder(self, lease: Json, holder: str) -> Json:
        transitions = int((lease.get("spec") or {}).get("leaseTransitions") or 0) + (holder != self._identity)
        mine = self._manifest(transitions=transitions)
        annotations = dict(metadata(lease).get("annotations") or {})
        annotations.pop(HOLDER_POD, None)
        annotations |= metadata(mine).get("annotations") or {}
        return {**lease, "metadata": {**metadata(lease), "annotations": annotations}, "spec": mine["spec"]}

    async def _renew(self) -> None:
        try:
            await self._write_renewal()
        except Conflict:
            # A renewal whose answer was lost, a new annotation, or another holder.
            await self._read_again()
            await self._write_renewal()

    async def _write_renewal(self) -> None:
        assert self._held is not None
        self._held["spec"]["renewTime"] = _micro_time()
        self._held = await self._kubernetes.replace(self._held)

    async def _read_again(self) -> None:
        lease = await self._kubernetes.get(LEASES, self._namespace, self._name)
        holder = ((lease or {}).get("spec") or {}).get("holderIdentity")
        if lease is None or holder != self._identity:
            self._held = None
            raise LeaseLost(
                f"the Lease {self._namespace}/{self._name} is held by {holder or 'no process'} now"
            )
        self._held = lease

    def _manifest(self, *, transitions: int) -> Json:
        now = _micro_time()
        about: Json = {"namespace": self._namespace, "name": self._name}
        if self._pod:
            about["annotations"] = {HOLDER_POD: self._pod}
        return {
            "apiVersion": LEASES.group_version,
            "kind": LEASES.kind,
            "metadata": about,
            "spec": {
                "holderIdentity": self._identity,
                "leaseDurationSeconds": max(1, round(self._seconds)),
                "acquireTime": now,
                "renewTime": now,
                "leaseTransitions": transitions,
            },
        }


def _micro_time() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
