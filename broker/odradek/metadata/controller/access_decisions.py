"""The decisions of a controller on access: users and their quotas, delegation tokens, access control lists.

What makes the changes is imported with the first of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from odradek.foundation.errors import PolicyViolation
from odradek.foundation.limits import DELEGATION_TOKENS_MAX, ENDED_TOKENS_REMOVED_MAX
from odradek.foundation.turns import Leftovers, Turn
from odradek.metadata.controller import late
from odradek.metadata.controller.decisions import Decisions, decision
from odradek.metadata.controller.requests import check_change_count
from odradek.metadata.image import paths
from odradek.metadata.registry.store import Create, Delete, Operation, Put, Store, missing

if TYPE_CHECKING:
    from odradek.foundation.clock import Clock
    from odradek.metadata.controller.acl_changes import AclChanges, DeletedAcls
    from odradek.metadata.controller.client_configs import ClientConfigChange
    from odradek.metadata.controller.registry_writer import RegistryWriter
    from odradek.metadata.controller.requests import Outcome
    from odradek.metadata.image.image import ImageHolder
    from odradek.security.authentication.delegation_tokens import DelegationToken
    from odradek.security.authorization.acls import AclBinding
    from odradek.security.authorization.filters import AclFilter


class AccessDecisions(Decisions):
    """A part of the `Controller`, which has the attributes."""

    writer: RegistryWriter
    _store: Store
    _images: ImageHolder
    _clock: Clock

    @decision
    async def change_client_configs(self, changes: Sequence[ClientConfigChange]) -> None:
        """Set and remove keys of users, client ids and addresses, each in one change at most; keys that are not named
        stay. Raises StoreError.
        """
        # Together: every image that is made costs as much as there are configs.
        known = self._images.current.client_configs
        made: set[str] = set()
        deleted: set[str] = set()
        turn = Turn()
        async with Leftovers() as kept:
            groups: list[list[Operation]] = kept.until_end([])
            for change in changes:
                if turn.is_over():
                    await turn.next()
                before = known.get(change.entity, {})
                group = await late.operations_of(self._store, change, before, made=made, deleted=deleted)
                if group:
                    groups.append(group)
                    check_change_count(len(groups))
            await self.writer.write_in_parts(groups)

    @decision
    async def put_token(self, token: DelegationToken) -> None:
        """Write a delegation token, new or changed; tokens that have ended are removed with it.

        Raises PolicyViolation when there are too many, StoreError.
        """
        tokens, now_ms = self._images.current.tokens, self._clock.wall_ms()
        path, data = late.path_of(token.id), late.write_token(token)
        ended = [one.id for one in tokens.values() if one.has_ended(now_ms) and one.id != token.id]
        removed: list[Operation] = [Delete(late.path_of(one)) for one in ended[:ENDED_TOKENS_REMOVED_MAX]]
        if token.id in tokens:
            await self.writer.write([*removed, Put(path, data)])
            return
        if len(tokens) - len(removed) >= DELEGATION_TOKENS_MAX:
            raise PolicyViolation(f"there are {len(tokens)} delegation tokens, and no more are allowed")
        parents = await missing(self._store, (paths.TOKENS.rpartition("/")[0], paths.TOKENS))
        await self.writer.write([*removed, *parents, Create(path, data)])

    @decision
    async def remove_token(self, token_id: str) -> None:
        """Remove a delegation token. Raises StoreError."""
        await self.writer.write([Delete(late.path_of(token_id))])

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
        return late.AclChanges(self._store, self._images, self.writer)
