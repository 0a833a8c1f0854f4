"""The door of this room: a broker without quotas of requests, slow ones or stores to try loads none of these."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.foundation.doors import open_late

if TYPE_CHECKING:
    from odradek.broker.quotas.keys import QuotaKey as QuotaKey
    from odradek.broker.quotas.meters import Meters as Meters
    from odradek.broker.quotas.precedence import quota_tables as quota_tables
    from odradek.broker.quotas.token_bucket import TokenBucket as TokenBucket
    from odradek.broker.requests.slow_requests import SlowRequests as SlowRequests
    from odradek.security.authorization.acls import CLUSTER_NAME as CLUSTER_NAME
    from odradek.security.authorization.acls import AclResourceType as AclResourceType
    from odradek.security.tls.contexts import server_context as server_context
    from odradek.security.tls.listener import listener_tls as listener_tls
else:
    __getattr__ = open_late(
        __name__,
        {
            "QuotaKey": "odradek.broker.quotas.keys",
            "Meters": "odradek.broker.quotas.meters",
            "quota_tables": "odradek.broker.quotas.precedence",
            "TokenBucket": "odradek.broker.quotas.token_bucket",
            "SlowRequests": "odradek.broker.requests.slow_requests",
            "AclResourceType": "odradek.security.authorization.acls",
            "CLUSTER_NAME": "odradek.security.authorization.acls",
            "server_context": "odradek.security.tls.contexts",
            "listener_tls": "odradek.security.tls.listener",
        },
    )
