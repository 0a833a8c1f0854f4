"""Checks of ShareFetch and ShareAcknowledge: Read of the group, and of each topic, which a request has by its id."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.failures import error_fields
from odradek.broker.requests.loading import Answer, Handle, for_many
from odradek.broker.requests.parts import SharesParts
from odradek.broker.requests.rights.rights import Rights
from odradek.foundation.errors import RequestError
from odradek.network.pending import Pending
from odradek.security.authorization.acls import AclOperation, AclResourceType

if TYPE_CHECKING:
    from odradek.broker.requests.shares.acknowledgements import MayRead
    from odradek.wire.protocol.requests.shares import ShareAcknowledgeRequest, ShareFetchRequest


def fetch_shared(
    handle: Handle, request: ShareFetchRequest, context: RequestContext[SharesParts], rights: Rights
) -> Answer:
    """A fetch that waits keeps the rights with which it began, so for max_wait at most."""
    del handle  # It asks for no rights.
    refusal = _group_refusal(request.group_id, rights)
    if refusal is not None:
        return context.response(**error_fields(refusal), responses=[], node_endpoints=[])
    return Pending(
        for_many("shares.share_fetch").answer_request(request, context, may_read=_may_read(rights))
    )


def acknowledge_shared(
    handle: Handle, request: ShareAcknowledgeRequest, context: RequestContext[SharesParts], rights: Rights
) -> Answer:
    del handle
    refusal = _group_refusal(request.group_id, rights)
    if refusal is not None:
        return context.response(**error_fields(refusal), responses=[], node_endpoints=[])
    return Pending(
        for_many("shares.share_acknowledge").answer_request(request, context, may_read=_may_read(rights))
    )


def _group_refusal(group_id: str | None, rights: Rights) -> RequestError | None:
    """None too for a request without a group, which the handler refuses."""
    if group_id is None:
        return None
    return rights.refusal(AclOperation.READ, AclResourceType.GROUP, group_id)


def _may_read(rights: Rights) -> MayRead:
    known: dict[UUID, bool] = {}

    def may_read(topic_id: UUID) -> bool:
        if topic_id not in known:
            name = rights.name_of_id(topic_id)
            # An id that is not known has an error of its own.
            known[topic_id] = name is None or rights.may(AclOperation.READ, AclResourceType.TOPIC, name)
        return known[topic_id]

    return may_read
