"""The decisions of a controller on access: users and their quotas, delegation tokens, access control lists.

What makes the changes is imported with the first of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from odradek.controller.decisions import Decisions, decision

if TYPE_CHECKING:
    from odradek.authorization.acls import AclBinding
    from odradek.authorization.filters import AclFilter
    from odradek.cluster.image import ImageHolder
    from odradek.controller.acl_changes import AclChanges, DeletedAcls
    from odradek.controller.client_configs import ClientConfigChange
    from odradek.controller.registry_writer import RegistryWriter
    from odradek.controller.requests import Outcome
    from odradek.foundation.clock import Clock
    from odradek.foundation.delegation_tokens import DelegationToken
    from odradek.registry.store import Store


class AccessDecisions(Decisions):
    """A part of the `Controller`, which has the attributes."""

    writer: RegistryWriter
    _store: Store
    _images: ImageHolder
    _clock: Clock

    @decision
    async def change_client_configs(self, changes: Sequence[ClientConfigChange]) -> None:
        """Set and remove keys of users, client ids and addresses; keys that are not named stay. Raises StoreError."""
        from odradek.controller.client_configs import ClientConfigChanges

        await ClientConfigChanges(self._store, self._images, self.writer).make(changes)

    @decision
    async def put_token(self, token: DelegationToken) -> None:
        """Write a delegation token. Raises PolicyViolation when there are too many, StoreError."""
        from odradek.controller.token_changes import TokenChanges

        changes = TokenChanges(self._store, self._images, self.writer)
        await changes.put(token, now_ms=self._clock.wall_ms())

    @decision
    async def remove_token(self, token_id: str) -> None:
        """Remove a delegation token. Raises StoreError."""
        from odradek.controller.token_changes import TokenChanges

        await TokenChanges(self._store, self._images, self.writer).remove(token_id)

    # --- access control lists ------------------------------------------------------------------------------------

    @decision
    async def create_acls(self, bindings: Sequence[AclBinding]) -> list[Outcome]:
        """Add ACLs; one outcome each, in order, None for success."""
        return await self._acl_changes().create(bindings)

    @decision
    async def delete_acls(self, filters: Sequence[AclFilter]) -> list[DeletedAcls]:
        """Remove the ACLs that match; for each filter those that it removed, or its error."""
        return await self._acl_changes().delete(filters)

    def _acl_changes(self) -> AclChanges:
        from odradek.controller.acl_changes import AclChanges

        return AclChanges(self._store, self._images, self.writer)
