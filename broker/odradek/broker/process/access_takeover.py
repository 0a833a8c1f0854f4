"""Gives a new cluster the users, access control lists and quotas of the Kafka (KRaft) whose directory it opens.

Done once, with the first topics that are adopted: later these records are old, and what was deleted since must not come
back. Entries that the registry has already stay as they are. The keys of SCRAM are the same in both, so passwords stay.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import Final

from odradek.broker.process.kraft_access import AccessControl, ClientQuota, KraftAccess, ScramUser
from odradek.broker.quotas.keys import build_valid_text, entity_of
from odradek.foundation.client_entities import ClientEntity
from odradek.foundation.errors import RequestError
from odradek.foundation.limits import ACLS_CHANGED_PER_REQUEST_MAX
from odradek.foundation.rate_limited_log import RateLimitedLog
from odradek.metadata.controller.client_configs import ClientConfigChange
from odradek.metadata.controller.controller import Controller
from odradek.metadata.image.image import ImageHolder
from odradek.security.authentication.scram import ITERATIONS_MIN, ScramCredential
from odradek.security.authorization.acls import (
    AccessControlEntry,
    AclBinding,
    AclOperation,
    AclResourceType,
    PatternType,
    PermissionType,
    ResourcePattern,
)

logger = logging.getLogger(__name__)

_MECHANISMS: Final = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}


class AccessTakeover:
    """Used once. `has_authorizer` is whether access control lists decide here."""

    def __init__(self, controller: Controller, images: ImageHolder, *, has_authorizer: bool) -> None:
        self._controller = controller
        self._images = images
        self._has_authorizer = has_authorizer
        self._lines = RateLimitedLog(logger, "users, quotas and ACLs of Kafka that are lost")

    async def take_over(self, access: KraftAccess) -> None:
        """Write all that can be used, and log what cannot. Raises StoreError."""
        users = await self._change(self._user_changes(access.users.values()))
        quotas = await self._change(self._quota_changes(access.quotas.values()))
        acls = await self._create_acls(access.acls.values())
        counted = (
            (acls, "access control entry", "access control entries"),
            (users, "SCRAM user", "SCRAM users"),
            (quotas, "quota of a client", "quotas of clients"),
        )
        taken = [f"{count} {one if count == 1 else more}" for count, one, more in counted if count]
        if taken:
            logger.warning("taken over from Kafka's metadata: %s", ", ".join(taken))
        if acls and not self._has_authorizer:
            logger.warning(
                "Kafka's access control entries decide nothing here, so every client that reaches a listener may do "
                "everything. Set authorizer.class.name and super.users, or let only trusted clients reach it"
            )

    async def _change(self, changes: Iterable[ClientConfigChange]) -> int:
        """Write what the registry does not have yet; how many keys."""
        written = 0
        for change in changes:
            known = self._images.current.client_configs.get(change.entity, {})
            texts = {key: text for key, text in change.texts.items() if key not in known}
            if texts:
                await self._controller.change_client_configs([ClientConfigChange(change.entity, texts)])
                written += len(texts)
        return written

    def _user_changes(self, users: Iterable[ScramUser]) -> Iterator[ClientConfigChange]:
        for user in users:
            mechanism = _MECHANISMS.get(user.mechanism)
            if mechanism is None or not user.name or user.iterations < ITERATIONS_MIN:
                self._lines.warning(
                    "the SCRAM user %s of Kafka is lost: its mechanism %d with %d iterations is not served",
                    *(user.name, user.mechanism, user.iterations),
                )
                continue
            credential = ScramCredential(user.salt, user.stored_key, user.server_key, user.iterations)
            yield ClientConfigChange(ClientEntity(user=user.name), {mechanism: credential.text})

    def _quota_changes(self, quotas: Iterable[ClientQuota]) -> Iterator[ClientConfigChange]:
        for quota in quotas:
            try:
                entity = entity_of(quota.parts)
                text = build_valid_text(entity, quota.key, quota.value)
            except RequestError as error:
                self._lines.warning("a quota of Kafka for %s is lost: %s", quota.parts, error)
                continue
            yield ClientConfigChange(entity, {quota.key: text})

    async def _create_acls(self, acls: Iterable[AccessControl]) -> int:
        bindings: list[AclBinding] = []
        for acl in acls:
            try:
                bindings.append(_binding(acl))
            except ValueError as error:
                self._lines.warning("an access control entry of Kafka is lost: %s: %s", acl, error)
        created = 0
        for start in range(0, len(bindings), ACLS_CHANGED_PER_REQUEST_MAX):
            some = bindings[start : start + ACLS_CHANGED_PER_REQUEST_MAX]
            for binding, refused in zip(some, await self._controller.create_acls(some), strict=True):
                if refused is None:
                    created += 1
                else:
                    self._lines.warning("an access control entry of Kafka is lost: %s: %s", binding, refused)
        return created


def _binding(acl: AccessControl) -> AclBinding:
    """Raises ValueError for a number that has no meaning here."""
    pattern = ResourcePattern(
        AclResourceType(acl.resource_type), acl.resource_name, PatternType(acl.pattern_type)
    )
    entry = AccessControlEntry(
        acl.principal, acl.host, AclOperation(acl.operation), PermissionType(acl.permission)
    )
    return AclBinding(pattern, entry)
