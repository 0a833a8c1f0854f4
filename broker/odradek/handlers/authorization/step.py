"""The dispatcher's step that checks each request: the last before the handler, as some checks answer in its place.

A process without an authorizer has no such step. An API without a check is refused, whatever the ACLs say.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from odradek.authorization.authorizer import Authorizer
from odradek.foundation.errors import ClusterAuthorizationFailed
from odradek.handlers.authorization.rights import Rights
from odradek.handlers.authorization.rules import Check
from odradek.handlers.authorization.table import CHECKS
from odradek.handlers.context import RequestContext
from odradek.handlers.loading import Answer, Handle

_NO_CHECK: Final = "The API has no check of rights in this release, so it is refused."


class AuthorizationStep:
    """Checks by `checks`, one for each API that the dispatcher serves."""

    def __init__(self, authorizer: Authorizer, checks: Mapping[int, Check] = CHECKS) -> None:
        self._authorizer = authorizer
        self._checks = checks

    def __call__(self, handle: Handle, request: object, context: RequestContext) -> Answer:
        check = self._checks.get(context.header.api_key)
        if check is None:
            raise ClusterAuthorizationFailed(_NO_CHECK)
        return check(handle, request, context, Rights(self._authorizer, context))
