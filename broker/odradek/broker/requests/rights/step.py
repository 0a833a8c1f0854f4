"""The dispatcher's step that checks each request: the last before the handler, as some checks answer in its place.

A process without an authorizer has no such step. An API without a check is refused, whatever the ACLs say.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Never, cast

from odradek.broker.requests.context import AnyContext
from odradek.broker.requests.loading import Answer, Handle
from odradek.broker.requests.rights import records
from odradek.broker.requests.rights.rights import Rights
from odradek.broker.requests.rights.rules import AnyCheck, Check, nothing
from odradek.broker.requests.rights.table import CHECKS
from odradek.foundation.security_errors import ClusterAuthorizationFailed
from odradek.security.authorization.authorizer import Authorizer

_NO_CHECK: Final = "The API has no check of rights in this release, so it is refused."


class AuthorizationStep:
    """Checks by `checks`, one for each API that the dispatcher serves."""

    def __init__(self, authorizer: Authorizer, checks: Mapping[int, Check[Never]] = CHECKS) -> None:
        self._authorizer = authorizer
        self._checks = checks

    def wrap(self, api_key: int, handle: Handle) -> Handle:
        """The handler behind the check of its API."""
        authorizer = self._authorizer
        check = self._checks.get(api_key)
        if check is None:
            return _refuse
        if check is nothing:
            return handle
        if check is records.produce:
            return records.produce_behind_check(handle, authorizer)
        # The dispatcher has decoded the request as its API's type, which is the one that the check takes.
        typed = cast("AnyCheck[object]", check)
        return lambda request, context: typed(handle, request, context, Rights(authorizer, context))


def _refuse(request: object, context: AnyContext) -> Answer:
    raise ClusterAuthorizationFailed(_NO_CHECK)
