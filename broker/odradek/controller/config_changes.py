"""Changes of settings: each resource is planned (`config_plans`, pure) and written by itself, so that a refused one
delays no other.

Only what decides for the cluster may use it, within a decision of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from odradek.cluster import nodes, paths
from odradek.cluster.dynamic_settings import DynamicSettings
from odradek.cluster.image import ImageHolder
from odradek.controller import config_plans
from odradek.controller.partition_states import PartitionStates
from odradek.controller.registry_writer import RegistryWriter
from odradek.controller.requests import AlterConfigOp, Outcome, Resource
from odradek.foundation.errors import RequestError
from odradek.registry.store import Create, Put, Store


class ConfigChanges:
    """Keeps nothing of its own. Both raise StoreError when the registry fails."""

    def __init__(
        self, store: Store, images: ImageHolder, settings: DynamicSettings, writer: RegistryWriter
    ) -> None:
        self._store = store
        self._images = images
        self._settings = settings
        self._writer = writer

    async def replace(
        self, requests: Sequence[tuple[Resource, Mapping[str, str | None]]], *, validate_only: bool
    ) -> list[Outcome]:
        """Give resources these settings and no others; one outcome each, in order, None for success."""
        outcomes: list[Outcome] = []
        for resource, texts in requests:
            try:
                given = config_plans.given_texts(texts)
            except RequestError as error:
                outcomes.append(error)
                continue
            outcomes.append(await self._set(resource, given, validate_only=validate_only))
        return outcomes

    async def change(
        self, requests: Sequence[tuple[Resource, Sequence[AlterConfigOp]]], *, validate_only: bool
    ) -> list[Outcome]:
        """Change single settings of resources; one outcome each, in order, None for success."""
        outcomes: list[Outcome] = []
        for resource, wanted in requests:
            before = self._images.current.config(resource.kind, config_plans.config_name(resource))
            try:
                texts = config_plans.incremental_texts(resource, wanted, before=before)
            except RequestError as error:
                outcomes.append(error)
                continue
            outcomes.append(await self._set(resource, texts, validate_only=validate_only))
        return outcomes

    async def _set(self, resource: Resource, texts: Mapping[str, str], *, validate_only: bool) -> Outcome:
        image = self._images.current
        name = config_plans.config_name(resource)
        try:
            config_plans.check_resource(resource, image=image, own_name=self._settings.broker_name)
            valid = config_plans.validated(
                resource,
                texts,
                before=image.config(resource.kind, name),
                settings=self._settings.current,
                static=self._settings.static,
            )
        except RequestError as error:
            return error
        if not validate_only and valid != dict(image.config(resource.kind, name)):
            await PartitionStates(self._writer, self._images).before_settings(resource.kind, name, valid)
            path = paths.config(resource.kind, name)
            there = await self._store.exists(path)
            data = nodes.write_config(valid)
            await self._writer.write([Put(path, data) if there else Create(path, data)])
        return None
