"""One connection of a client to one broker: versions negotiated, requests under way at once, answers in order.

Opening it sends ApiVersions, which also shows whether a Kafka broker answers at all. Each failure (refused, not
resolved, TLS, HTTP, silence) has its own message. A request that gets no answer in time fails, and its connection is
closed. Answers arrive in order, so the later ones would be late as well.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from odradek.client.addresses import Address
from odradek.client.denials import note_answer
from odradek.client.errors import ClientTimeout, ConnectionFailed, UnsupportedByBroker, error_for
from odradek.client.exchange import Exchange
from odradek.foundation.errors import InvalidRequest, UnsupportedVersion
from odradek.foundation.ids import ANONYMOUS
from odradek.foundation.version import __version__
from odradek.network.network import Network
from odradek.wire.protocol import codec, messages
from odradek.wire.protocol.api import ApiKey
from odradek.wire.protocol.framing import parse_response_header, request_header

if TYPE_CHECKING:
    from odradek.client.metadata import ClusterInfo
    from odradek.wire.protocol.messages import AnyMessage
    from odradek.wire.protocol.responses.cluster import ApiVersionsResponse

API_VERSIONS_VERSION = 3
API_VERSIONS_VERSION_OLDEST = 0
SOFTWARE_NAME = "odradek"
# The frame sizes that the first letters of HTTP or of a TLS alert would make.
_FOREIGN_BEGINNINGS = {
    b"HTTP": "an HTTP server",
    b"\x15\x03": "a server that expects TLS",
    b"SSH-": "an SSH server",
}


class BrokerFeatures(NamedTuple):
    """The level of each feature that the whole cluster works at, and the epoch of that knowledge, which grows."""

    epoch: int
    levels: Mapping[str, int]


NO_FEATURES = BrokerFeatures(-1, {})


def read_finalized_features(response: ApiVersionsResponse) -> BrokerFeatures:
    """The features in an answer to ApiVersions; before version 3 it has none."""
    levels = {one.name: one.max_version_level for one in getattr(response, "finalized_features", ())}
    return BrokerFeatures(getattr(response, "finalized_features_epoch", -1), levels)


class BrokerConnection:
    """Open it with `open`; then call `request` until it breaks or is closed."""

    def __init__(
        self,
        address: Address,
        exchange: Exchange,
        *,
        client_id: str,
        request_timeout_ms: int,
        principal: str | None = ANONYMOUS,
    ) -> None:
        self.address = address
        self._principal = principal
        self._exchange = exchange
        self._client_id = client_id
        self._request_timeout_ms = request_timeout_ms
        self._versions: dict[int, tuple[int, int]] = {}
        self.features = NO_FEATURES
        """As of when the connection was opened."""

    @classmethod
    async def open(
        cls,
        address: Address,
        *,
        network: Network,
        client_id: str,
        connect_timeout_ms: int,
        request_timeout_ms: int,
    ) -> BrokerConnection:
        """Connect and learn the broker's versions. Raises ConnectionFailed, ClientTimeout."""
        try:
            async with asyncio.timeout(connect_timeout_ms / 1000):
                _, exchange = await network.connect(Exchange, host=address.host, port=address.port)
        except TimeoutError as failure:
            raise ClientTimeout(
                f"{address} did not accept a connection within {connect_timeout_ms / 1000:g} s; "
                "check the address and the firewall"
            ) from failure
        except OSError as failure:
            raise ConnectionFailed(_connect_failure(address, failure)) from failure
        connection = cls(
            address,
            exchange,
            client_id=client_id,
            request_timeout_ms=request_timeout_ms,
            principal=getattr(network, "principal", ANONYMOUS),
        )
        try:
            await connection._negotiate(connect_timeout_ms)
        except BaseException:
            await connection.close()
            raise
        return connection

    async def _negotiate(self, timeout_ms: int) -> None:
        response = await self._ask_versions(API_VERSIONS_VERSION, timeout_ms)
        failure = error_for(response.error_code)
        if isinstance(failure, UnsupportedVersion):
            response = await self._ask_versions(API_VERSIONS_VERSION_OLDEST, timeout_ms)
            failure = error_for(response.error_code)
        if failure is not None:
            raise ConnectionFailed(f"{self.address} does not report its versions: {failure}")
        self._versions = {key.api_key: (key.min_version, key.max_version) for key in response.api_keys}
        self.features = read_finalized_features(response)

    async def _ask_versions(self, version: int, timeout_ms: int) -> ApiVersionsResponse:
        fields = {"client_software_name": SOFTWARE_NAME, "client_software_version": __version__}
        try:
            frame = await self._exchange_frame(ApiKey.API_VERSIONS, version, fields, timeout_ms)
        except ConnectionFailed as failure:
            raise ConnectionFailed(self._what_answered()) from failure
        except ClientTimeout as failure:
            raise ClientTimeout(
                f"{self.address} accepted the connection but did not answer within {timeout_ms / 1000:g} s; "
                "is it a Kafka broker?"
            ) from failure
        try:
            response: ApiVersionsResponse = codec.decode_response(ApiKey.API_VERSIONS, version, frame)[1]
        except InvalidRequest as failure:
            # A broker that does not know this version answers with version 0.
            if version != API_VERSIONS_VERSION_OLDEST:
                return cast(
                    "ApiVersionsResponse",
                    codec.decode_response(ApiKey.API_VERSIONS, API_VERSIONS_VERSION_OLDEST, frame)[1],
                )
            raise ConnectionFailed(self._what_answered()) from failure
        return response

    def _what_answered(self) -> str:
        beginning = self._exchange.first_bytes
        for start, what in _FOREIGN_BEGINNINGS.items():
            if beginning.startswith(start):
                return f"{self.address} is {what}, not a Kafka broker that this client can talk to; check the port"
        if beginning:
            return f"{self.address} answered in another protocol than Kafka's; check the port"
        return f"{self.address} closed the connection without an answer; is it a Kafka broker, and does it expect TLS?"

    # --- requests -------------------------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Whether requests may be sent."""
        return self._exchange.is_open

    @property
    def peer_certificate(self) -> Mapping[str, object] | None:
        """The broker's certificate, as `ssl.SSLSocket.getpeercert` gives it; None without TLS."""
        return self._exchange.peer_certificate

    def broker_id(self, cluster: ClusterInfo) -> int:
        """The id of the broker at this address, -1 when it advertises another one."""
        return next((b.id for b in cluster.brokers.values() if b.address == self.address), -1)

    def offers(self, api: ApiKey) -> bool:
        """Whether the broker has this API in any version."""
        return api in self._versions

    def offers_version(self, api: ApiKey, version: int) -> bool:
        """Whether the broker has this version of an API."""
        lowest, highest = self._versions.get(api, (0, -1))
        return lowest <= version <= highest

    def version_of(self, api: ApiKey, versions: tuple[int, int]) -> int:
        """The newest version that both sides support, between the given bounds. Raises UnsupportedByBroker."""
        offered = self._versions.get(api)
        if offered is None:
            raise UnsupportedByBroker(f"the broker at {self.address} does not offer {api.name}")
        newest = min(offered[1], versions[1])
        if newest < max(offered[0], versions[0]):
            raise UnsupportedByBroker(
                f"the broker at {self.address} offers {api.name} in the versions {offered[0]} to {offered[1]}; "
                f"this client supports {versions[0]} to {versions[1]}"
            )
        return newest

    async def request(
        self, api: ApiKey, *, versions: tuple[int, int], timeout_ms: int | None = None, **fields: Any
    ) -> AnyMessage:
        """Send and wait for the answer, a message of `wire.protocol.messages`. `fields` are those of all versions;
        fields that the chosen version lacks are left out. Raises ConnectionFailed, ClientTimeout, UnsupportedByBroker.
        """
        version = self.version_of(api, versions)
        frame = await self._exchange_frame(api, version, fields, timeout_ms or self._request_timeout_ms)
        note_answer(api, self._principal)
        try:
            return codec.decode_response(api, version, frame)[1]
        except InvalidRequest as failure:
            self._exchange.break_off(failure)
            raise ConnectionFailed(
                f"{self.address} sent an answer that cannot be read: {failure}"
            ) from failure

    async def request_bytes(self, api: ApiKey, version: int, body: bytes) -> memoryview:
        """As `request`, for a version without a schema: the bytes after the request's header, and after the answer's.
        The version must not be a flexible one.
        """
        correlation_id = self._exchange.next_correlation_id()
        header = request_header(
            api_key=api, api_version=version, correlation_id=correlation_id, client_id=self._client_id
        )
        frame = (len(header) + len(body)).to_bytes(4, "big") + header + body
        answer = await self._answer(frame, correlation_id, api, self._request_timeout_ms)
        return answer[parse_response_header(answer, api_key=api, api_version=version)[1] :]

    async def send_only(self, api: ApiKey, *, versions: tuple[int, int], **fields: Any) -> None:
        """Send a request without an answer (a produce request with acks 0). Waits only while the socket is full."""
        version = self.version_of(api, versions)
        await self._exchange.send(self._frame(api, version, fields)[0])

    async def _exchange_frame(
        self, api: ApiKey, version: int, fields: Mapping[str, object], timeout_ms: int
    ) -> memoryview:
        return await self._answer(*self._frame(api, version, fields), api, timeout_ms)

    def _frame(self, api: ApiKey, version: int, fields: Mapping[str, object]) -> tuple[bytes, int]:
        """A request and its correlation id."""
        correlation_id = self._exchange.next_correlation_id()
        message = messages.request(api, version, **fields)
        return codec.encode_request(api, version, correlation_id, self._client_id, message), correlation_id

    async def _answer(self, frame: bytes, correlation_id: int, api: ApiKey, timeout_ms: int) -> memoryview:
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await self._exchange.ask(frame, correlation_id)
        except TimeoutError as failure:
            late = ClientTimeout(
                f"{self.address} did not answer {api.name} within {timeout_ms / 1000:g} s; "
                "is it overloaded? --timeout allows more"
            )
            self._exchange.break_off(late)
            raise late from failure
        except ConnectionError as failure:
            raise ConnectionFailed(f"the connection to {self.address} was lost: {failure}") from failure

    async def close(self) -> None:
        """Close. Requests under way fail with ConnectionFailed."""
        await self._exchange.close()


def _connect_failure(address: Address, failure: OSError) -> str:
    if isinstance(failure, socket.gaierror):
        return f"the host name {address.host!r} cannot be resolved ({failure.strerror}); check its spelling and DNS"
    if failure.errno is None and isinstance(failure, ConnectionError):
        return str(failure)
    if isinstance(failure, ConnectionRefusedError) or "refused" in str(failure).lower():
        return (
            f"nothing listens at {address}: connection refused; start a broker there, or correct the address"
        )
    return f"cannot connect to {address}: {failure.strerror or failure}"
