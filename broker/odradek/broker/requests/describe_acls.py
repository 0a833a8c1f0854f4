"""DescribeAcls: the ACLs that a filter matches, by resource pattern."""

from __future__ import annotations

from odradek.broker.requests.acl_fields import entry_fields, filter_of, pattern_fields, require_authorizer
from odradek.broker.requests.context import AnyContext
from odradek.broker.requests.failures import error_fields
from odradek.foundation.errors import RequestError
from odradek.security.authorization.acls import AccessControlEntry, ResourcePattern
from odradek.wire.protocol.messages import Message
from odradek.wire.protocol.requests.clients import DescribeAclsRequest


def handle(request: DescribeAclsRequest, context: AnyContext) -> Message:
    try:
        authorizer = require_authorizer(context)
        wanted = filter_of(request)
        wanted.check()
    except RequestError as error:
        return context.response(**error_fields(error), resources=[])
    found: dict[ResourcePattern, list[AccessControlEntry]] = {}
    for pattern, entry in authorizer.index.matching(wanted):
        found.setdefault(pattern, []).append(entry)
    return context.response(
        resources=[
            {**pattern_fields(pattern), "acls": [entry_fields(entry) for entry in entries]}
            for pattern, entries in found.items()
        ]
    )
