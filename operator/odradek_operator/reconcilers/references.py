"""The Secrets, ConfigMaps and volume claims without which a pod does not start, and which of them are not there.

A pod that refers to one that is missing stays in ContainerCreating for as long as it is. So nothing that serves is
replaced by such a pod. The operator looks whether a Secret is there, and never at what is in it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from odradek_operator.gateways.kubernetes import (
    CONFIG_MAPS,
    SECRETS,
    VOLUME_CLAIMS,
    Api,
    Forbidden,
    Json,
    Kubernetes,
    Refused,
)
from odradek_operator.gateways.secrets import Secrets


class Reference(NamedTuple):
    """An object that a pod needs at its start; of a ConfigMap also the key, where one is named."""

    api: Api
    name: str
    key: str = ""

    def __str__(self) -> str:
        named = f"{self.api.kind} {self.name}"
        return f"key {self.key} of the {named}" if self.key else named


async def find_missing(
    kubernetes: Kubernetes, namespace: str, templates: Iterable[Json], *, own: Collection[str] = ()
) -> tuple[str, ...]:
    """What is not there of all that these pod templates need; `own` are names that the operator itself makes.

    What the operator has no right to look for counts as there. Raises KubernetesError.
    """
    wanted = dict.fromkeys(one for template in templates for one in list_references(template))
    missing = [
        one for one in wanted if one.name not in own and not await _is_there(kubernetes, namespace, one)
    ]
    return tuple(dict.fromkeys(map(str, missing)))


async def _is_there(kubernetes: Kubernetes, namespace: str, reference: Reference) -> bool:
    try:
        if reference.api == SECRETS:
            return await Secrets(kubernetes).exists(namespace, reference.name)
        if reference.api == VOLUME_CLAIMS:
            fields = {"metadata.name": reference.name}
            return bool(await kubernetes.list(VOLUME_CLAIMS, namespace, fields=fields))
        found = await kubernetes.get(reference.api, namespace, reference.name)
    except (Forbidden, Refused):
        return True
    if found is None or not reference.key:
        return found is not None
    return any(reference.key in (found.get(part) or {}) for part in ("data", "binaryData"))


def list_references(template: Json) -> Iterator[Reference]:
    """The objects that a pod of this template cannot start without. Those that are optional are left out."""
    spec: Json = template.get("spec") or {}
    for volume in spec.get("volumes") or ():
        yield from _list_of_volume(volume)
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        for source in container.get("envFrom") or ():
            yield from _read_source(CONFIG_MAPS, source.get("configMapRef"))
            yield from _read_source(SECRETS, source.get("secretRef"))
        for variable in container.get("env") or ():
            source = variable.get("valueFrom") or {}
            yield from _read_source(CONFIG_MAPS, source.get("configMapKeyRef"))
            yield from _read_source(SECRETS, source.get("secretKeyRef"))


def _list_of_volume(volume: Json) -> Iterator[Reference]:
    yield from _read_source(SECRETS, volume.get("secret"), field="secretName")
    yield from _read_source(CONFIG_MAPS, volume.get("configMap"))
    yield from _read_source(VOLUME_CLAIMS, volume.get("persistentVolumeClaim"), field="claimName")
    for source in (volume.get("projected") or {}).get("sources") or ():
        yield from _read_source(SECRETS, source.get("secret"))
        yield from _read_source(CONFIG_MAPS, source.get("configMap"))


def _read_source(api: Api, source: Json | None, *, field: str = "name") -> Iterator[Reference]:
    if not source or source.get("optional") or not source.get(field):
        return
    # Whether a Secret has a key cannot be known without reading it.
    key = str(source.get("key") or "") if api == CONFIG_MAPS else ""
    yield Reference(api, str(source[field]), key)
