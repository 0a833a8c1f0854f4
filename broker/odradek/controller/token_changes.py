"""Writes and removes delegation tokens, within a decision. Tokens that have ended are removed with the next write."""

from __future__ import annotations

from odradek.cluster import paths, token_nodes
from odradek.cluster.image import ImageHolder
from odradek.controller.registry_writer import RegistryWriter
from odradek.foundation.delegation_tokens import DelegationToken
from odradek.foundation.errors import PolicyViolation
from odradek.foundation.limits import DELEGATION_TOKENS_MAX, ENDED_TOKENS_REMOVED_MAX
from odradek.registry.store import Create, Delete, Operation, Put, Store


class TokenChanges:
    """Keeps nothing of its own."""

    def __init__(self, store: Store, images: ImageHolder, writer: RegistryWriter) -> None:
        self._store = store
        self._images = images
        self._writer = writer

    async def put(self, token: DelegationToken, *, now_ms: int) -> None:
        """Write a token, new or changed. Raises PolicyViolation when there are too many, StoreError."""
        tokens = self._images.current.tokens
        path, data = token_nodes.path_of(token.id), token_nodes.write_token(token)
        ended = [one.id for one in tokens.values() if one.has_ended(now_ms) and one.id != token.id]
        removed: list[Operation] = [
            Delete(token_nodes.path_of(one)) for one in ended[:ENDED_TOKENS_REMOVED_MAX]
        ]
        if token.id in tokens:
            await self._writer.write([*removed, Put(path, data)])
            return
        if len(tokens) - len(removed) >= DELEGATION_TOKENS_MAX:
            raise PolicyViolation(f"there are {len(tokens)} delegation tokens, and no more are allowed")
        home = paths.TOKENS.rpartition("/")[0]
        parents = [Create(one) for one in (home, paths.TOKENS) if not await self._store.exists(one)]
        await self._writer.write([*removed, *parents, Create(path, data)])

    async def remove(self, token_id: str) -> None:
        """Raises StoreError."""
        await self._writer.write([Delete(token_nodes.path_of(token_id))])
