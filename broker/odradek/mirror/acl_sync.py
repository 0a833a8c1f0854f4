"""ACLs of topics at the source, for their copies at the target, as MirrorMaker 2 mirrors them.

An ACL that allows writing is left out, and one that allows all becomes one that allows reading: only the mirror writes
to copies. ACLs are added and never removed. Patterns stay at the source: only ACLs of one topic by its name go over.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from odradek.client.admin.acls import AclAdmin
from odradek.client.client import Client
from odradek.client.errors import UnsupportedByBroker
from odradek.foundation.errors import SecurityDisabled
from odradek.mirror.topic_sync import MirroredTopic
from odradek.security.authorization.acls import (
    AclBinding,
    AclOperation,
    AclResourceType,
    PatternType,
    PermissionType,
)
from odradek.security.authorization.filters import AclFilter

logger = logging.getLogger(__name__)


class AclSync:
    """The ACLs of one flow."""

    def __init__(self, *, source: Client, target: Client) -> None:
        self._source = AclAdmin(source)
        self._target = AclAdmin(target)

    async def sync(self, topics: Iterable[MirroredTopic]) -> None:
        """Add what is missing at the target. Does nothing where either cluster has no authorizer."""
        names = {topic.source: topic.target for topic in topics}
        literal = AclFilter(type=AclResourceType.TOPIC, pattern_type=PatternType.LITERAL)
        try:
            wanted = {
                mirrored
                for binding in await self._source.list(literal)
                if binding.pattern.name in names
                and (mirrored := mirrored_acl(binding, names[binding.pattern.name])) is not None
            }
            missing = sorted(wanted - set(await self._target.list(literal))) if wanted else []
        except (SecurityDisabled, UnsupportedByBroker) as failure:
            logger.debug("ACLs of topics are not mirrored: %s", failure)
            return
        if missing:
            for refusal in await self._target.create(missing):
                if refusal is not None:
                    raise refusal


def mirrored_acl(binding: AclBinding, target: str) -> AclBinding | None:
    """The ACL for the copy of a topic; None for one that stays at the source."""
    entry = binding.entry
    if entry.permission is PermissionType.ALLOW:
        if entry.operation is AclOperation.WRITE:
            return None
        if entry.operation is AclOperation.ALL:
            entry = entry._replace(operation=AclOperation.READ)
    return AclBinding(binding.pattern._replace(name=target), entry)
