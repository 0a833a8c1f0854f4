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

# All settings of a resource, or changes of single ones.
WantedSettings = Mapping[str, str | None] | Sequence[AlterConfigOp]


class ConfigChanges:
    """Keeps nothing of its own. `make` raises StoreError when the registry fails."""

    def __init__(
        self, store: Store, images: ImageHolder, settings: DynamicSettings, writer: RegistryWriter
    ) -> None:
        self._store = store
        self._images = images
        self._settings = settings
        self._writer = writer

    async def make(
        self, requests: Sequence[tuple[Resource, WantedSettings]], *, validate_only: bool
    ) -> list[Outcome]:
        """Give resources other settings; one outcome each, in order, None for success."""
        return [
            await self._make_one(resource, wanted, validate_only=validate_only)
            for resource, wanted in requests
        ]

    async def _make_one(self, resource: Resource, wanted: WantedSettings, *, validate_only: bool) -> Outcome:
        image = self._images.current
        name = config_plans.config_name(resource)
        before = image.config(resource.kind, name)
        try:
            if isinstance(wanted, Mapping):
                texts = config_plans.given_texts(wanted)
            else:
                texts = config_plans.incremental_texts(resource, wanted, before=before)
            config_plans.check_resource(resource, image=image, own_name=self._settings.broker_name)
            valid = config_plans.validated(
                resource, texts, before=before, settings=self._settings.current, static=self._settings.static
            )
        except RequestError as error:
            return error
        if not validate_only and valid != dict(before):
            await PartitionStates(self._writer, self._images).before_settings(resource.kind, name, valid)
            path = paths.config(resource.kind, name)
            write = Put if await self._store.exists(path) else Create
            await self._writer.write([write(path, nodes.write_config(valid))])
        return None
