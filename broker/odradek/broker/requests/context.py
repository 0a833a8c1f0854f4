"""The surroundings of a request that its handler may know: its client, its arrival, and the parts of its family.

`principal` is the authenticated client. Without authentication it is Kafka's ANONYMOUS.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from odradek.broker.requests.table import HANDLERS, Handler
from odradek.foundation.ids import ANONYMOUS
from odradek.foundation.named_tuple import NamedTuple
from odradek.network.connection import Connection
from odradek.wire.protocol import messages

if TYPE_CHECKING:
    from odradek.broker.replication.blocking import BlockingWork
    from odradek.broker.requests.counters import RequestCounters
    from odradek.metadata.image.image import ImageHolder
    from odradek.security.authorization.authorizer import Authorizer
    from odradek.wire.protocol.framing import RequestHeader

_NOTHING: Final[Set[object]] = frozenset()

PartsT_co = TypeVar("PartsT_co", covariant=True)


class RequestParts:
    """What every request may need: the dispatcher and the checks of rights use it too."""

    def __init__(
        self,
        *,
        images: ImageHolder,
        counters: RequestCounters,
        handlers: Mapping[int, Handler] = HANDLERS,
        authorizer: Authorizer | None = None,
        optional_long_work: BlockingWork | None = None,
        is_broker: bool = True,
        node_id: int = -1,
    ) -> None:
        """`optional_long_work` is the thread for what takes more of a processor than a turn of the loop may.

        `node_id` is the broker's; a controller has none, -1.
        """
        self.images: Final = images
        self.counters: Final = counters
        self.handlers: Final = handlers
        self.authorizer: Final = authorizer
        """Decides what each principal may do; None where every client may do everything."""
        self.optional_long_work: Final = optional_long_work
        self.is_broker: Final = is_broker
        self.node_id: Final = node_id

    @property
    def long_work(self) -> BlockingWork:
        """The thread, which each broker has."""
        assert self.optional_long_work is not None, "only a controller may have no thread"
        return self.optional_long_work


class RequestContext(NamedTuple, Generic[PartsT_co]):
    """One request's surroundings. `received_at` is when its frame was received, in monotonic seconds.

    `broker` has what the request's family may use of the broker (`parts`), or of the controller.
    """

    header: RequestHeader
    connection: Connection
    broker: PartsT_co
    received_at: float
    principal: str = ANONYMOUS

    @property
    def named_twice(self) -> Set[object]:
        """The elements of a large request that it names more than once, which is answered in parts (`PartContext`)."""
        return _NOTHING

    @property
    def client_host(self) -> str:
        """The peer's address without its port."""
        peer = self.connection.peer
        return str(peer[0]) if peer else ""

    @property
    def listener_name(self) -> str:
        """The listener of the connection: answers name the advertised addresses of this listener."""
        return self.connection.listener_name

    def response(self, **fields: object) -> messages.Message:
        """The answer to the request, of its API and version, with these fields (`wire.protocol.messages`)."""
        header = self.header
        return messages.response(header.api_key, header.api_version, **fields)


class PartContext(RequestContext[PartsT_co]):
    """The surroundings of a part of a large request."""

    named_twice: Set[object] = _NOTHING


AnyContext = RequestContext[RequestParts]
"""Of a request of any family."""
