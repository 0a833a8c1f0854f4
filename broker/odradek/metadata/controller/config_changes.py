"""Changes of settings: each resource is planned by itself (`config_plans`, pure), and all are written together.

A refused one delays no other. Only what decides for the cluster may use it, within a decision of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from odradek.foundation.error_values import without_trace
from odradek.foundation.errors import RequestError
from odradek.foundation.turns import Leftovers, Turn
from odradek.metadata.controller import config_plans
from odradek.metadata.controller.partition_states import PartitionStates
from odradek.metadata.controller.registry_writer import RegistryWriter
from odradek.metadata.controller.requests import AlterConfigOp, Outcome, Resource, check_change_count
from odradek.metadata.image import nodes, paths
from odradek.metadata.image.dynamic_settings import DynamicSettings
from odradek.metadata.image.image import ImageHolder
from odradek.metadata.registry.store import Create, Operation, Put, Store

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
        """Give resources other settings, each named once; one outcome each, in order, None for success."""
        outcomes: list[Outcome] = []
        turn = Turn()
        async with Leftovers() as kept:
            groups: list[list[Operation]] = kept.until_end([])
            for resource, wanted in requests:
                if turn.is_over(1 + len(wanted)):
                    await turn.next()
                try:
                    valid = self._plan_settings(resource, wanted)
                except RequestError as error:
                    outcomes.append(without_trace(error))
                    continue
                outcomes.append(None)
                name = config_plans.config_name(resource)
                if validate_only or valid == dict(self._images.current.config(resource.kind, name)):
                    continue
                check_change_count(len(groups) + 1)
                await PartitionStates(self._writer, self._images).before_settings(resource.kind, name, valid)
                path = paths.config(resource.kind, name)
                write = Put if await self._store.exists(path) else Create
                groups.append([write(path, nodes.write_config(valid))])
            # Together: every image that is made costs as much as there are settings.
            await self._writer.write_in_parts(groups)
        return outcomes

    def _plan_settings(self, resource: Resource, wanted: WantedSettings) -> Mapping[str, str]:
        """The settings that the resource will have. Raises the RequestError of a change that may not be."""
        image = self._images.current
        name = config_plans.config_name(resource)
        before = image.config(resource.kind, name)
        if isinstance(wanted, Mapping):
            texts = config_plans.require_texts(wanted)
        else:
            texts = config_plans.incremental_texts(resource, wanted, before=before)
        config_plans.check_resource(resource, image=image, own_name=self._settings.broker_name)
        return config_plans.validate_texts(
            resource, texts, before=before, settings=self._settings.current, static=self._settings.static
        )
