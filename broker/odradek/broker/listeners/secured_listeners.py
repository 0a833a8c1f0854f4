"""The protection of a process's listeners, built from its settings before anything else is opened.

A start without a secured listener loads none of it: OpenSSL takes 4 MB and some milliseconds.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final

from odradek.broker.listeners import late
from odradek.foundation.client_entities import ClientEntity
from odradek.foundation.endpoints import Endpoint
from odradek.foundation.errors import SettingError
from odradek.foundation.limits import LOGIN_SECONDS_MAX
from odradek.foundation.settings.broker_settings import Settings
from odradek.foundation.settings.protection import WITH_SASL, WITH_TLS
from odradek.foundation.tasks import TaskOwner
from odradek.network.connection import Dispatch
from odradek.network.login_bounds import LoginBounds
from odradek.network.network import Network

if TYPE_CHECKING:
    from odradek.broker.requests.sasl_counters import SaslCounters
    from odradek.foundation.settings.declaration import SettingValue
    from odradek.metadata.image.dynamic_settings import DynamicSettings
    from odradek.metadata.image.image import ImageHolder
    from odradek.network.listener import Listener
    from odradek.network.secured import ConnectionSecurity
    from odradek.security.authentication.delegation_tokens import DelegationToken
    from odradek.security.authentication.listener import ListenerSasl
    from odradek.security.authentication.oauth_documents import KeySet
    from odradek.security.tls.contexts import FollowedContext
    from odradek.security.tls.files import TlsOptions
    from odradek.security.tls.listener import ListenerTls

logger = logging.getLogger(__name__)

# An authority that is taken away must be gone within a second.
_FOLLOW_SECONDS: Final = 0.5
MECHANISM = "sasl.mechanism.inter.broker.protocol"
CONTROLLER_MECHANISM = "sasl.mechanism.controller.protocol"
ClientConfigs = Mapping[ClientEntity, Mapping[str, str]]


class SecuredListeners:
    """TLS and logins, by listener."""

    def __init__(
        self,
        settings: Settings,
        client_configs: Callable[[], ClientConfigs],
        tokens: Callable[[], Mapping[str, DelegationToken]] | None = None,
        *,
        endpoints: Iterable[Endpoint] | None = None,
        login_secret: Callable[[], bytes] = lambda: b"",
    ) -> None:
        """`client_configs` has the credentials of SCRAM, `tokens` the delegation tokens. `login_secret` is the
        cluster's, or empty: what SCRAM shows of users that do not exist depends on it.

        `endpoints` are those of `listeners` where none are given. Raises SettingError or DependencyError.
        """
        self._tokens = tokens
        self._login_secret = login_secret
        self._tls: dict[str, ListenerTls] = {}
        self.followed: list[FollowedContext] = []
        """The contexts whose files may change."""
        self._tls_options: list[tuple[FollowedContext, Callable[[Settings], TlsOptions | None]]] = []
        """How the options of each context follow from settings, which may change."""
        self.key_sets: list[KeySet] = []
        """The keys of tokens, which change too."""
        self._sasl: dict[str, ListenerSasl] = {}
        self.logins: dict[str, SaslCounters] = {}
        """The counts of logins by listener, where clients log in."""
        for endpoint in settings.listener_endpoints if endpoints is None else endpoints:
            name, protocol = endpoint.listener_name, endpoint.security_protocol
            if protocol in WITH_TLS:
                self._add_tls(settings, name, is_sasl=protocol in WITH_SASL)
            if protocol in WITH_SASL:
                self._add_sasl(settings, name, client_configs)
        if self._tls or self._sasl:
            write_no_core_file()

    def _add_tls(self, settings: Settings, name: str, *, is_sasl: bool) -> None:
        def options(current: Settings) -> TlsOptions:
            return late.listener_tls(current, name, is_sasl=is_sasl)

        listening = late.ListenerTls(options(settings))
        self._follow(listening.followed, options)
        self._tls[name] = listening

    def _add_sasl(self, settings: Settings, name: str, client_configs: Callable[[], ClientConfigs]) -> None:
        find_token = None
        if self._tokens is not None and settings.delegation_token_secret_key:
            find_token = late.tokens_as_credentials(
                self._tokens, settings.delegation_token_secret_key, now_ms=_now_ms
            )
        sasl = self._sasl[name] = late.listener_sasl(
            settings,
            name,
            late.credentials_of(client_configs),
            find_token,
            unknown_users=late.UnknownUsers(secret=self._login_secret, client_configs=client_configs),
        )
        if sasl.key_set is not None:
            self.key_sets.append(sasl.key_set)

    def _follow(self, context: FollowedContext, options: Callable[[Settings], TlsOptions | None]) -> None:
        self.followed.append(context)
        self._tls_options.append((context, options))

    async def follow_settings(self, settings: DynamicSettings) -> Callable[[], None]:
        """Take stores of listeners that are changed while this process runs; the result ends that.

        Those that were changed before it started are in use when this returns.
        """

        def take(current: Settings) -> None:
            for context, options_of in self._tls_options:
                try:
                    options = options_of(current)
                except SettingError as failure:
                    logger.error("%s keeps its certificates: %s", context.options.name, failure)
                    continue
                if options is not None:
                    context.wanted_options = options

        take(settings.current)
        for context in self.followed:
            await asyncio.to_thread(context.follow)
        return settings.subscribe(lambda _, current: take(current))

    async def read_keys(self) -> None:
        """Read the keys of tokens before clients come: a login that fails for want of keys ends a client for good."""
        for keys in self.key_sets:
            await asyncio.to_thread(keys.follow)

    def tls(self, name: str) -> ListenerTls | None:
        return self._tls.get(name)

    def sasl(self, name: str) -> ListenerSasl | None:
        return self._sasl.get(name)

    def follow_certificates(
        self, listeners: Callable[[], Iterable[Listener]], closing: AsyncExitStack
    ) -> None:
        """Take certificates that change on disk, and end connections that they do not cover any more."""

        async def follow(changing: FollowedContext | KeySet) -> None:
            while True:
                await asyncio.sleep(_FOLLOW_SECONDS)
                if await asyncio.to_thread(changing.follow):
                    for listener in listeners():
                        listener.drop_untrusted()

        tasks = TaskOwner("certificates")
        for context in self.followed:
            tasks.start(follow(context), name="watch")
        for keys in self.key_sets:
            tasks.start(follow(keys), name="watch")
        closing.push_async_callback(tasks.close)

    def follow_users(
        self, images: ImageHolder, listeners: Callable[[], Iterable[Listener]]
    ) -> Callable[[], None]:
        """End connections whose credential is deleted, or whose token has ended; the result ends that."""
        if not self._sasl:
            return lambda: None
        return late.LoginWatch(images, listeners, now_ms=_now_ms).stop

    def login_bounds(self, name: str) -> LoginBounds | None:
        """The bounds of clients that have not logged in, where they must."""
        sasl = self._sasl.get(name)
        return None if sasl is None else LoginBounds(sasl.request_bytes_max, LOGIN_SECONDS_MAX)

    def dispatch(self, name: str, dispatcher: Dispatch, *, now: Callable[[], float]) -> Dispatch:
        """The function that is called with each frame of a listener."""
        sasl = self._sasl.get(name)
        if sasl is None:
            return dispatcher
        logins = late.SaslDispatcher(dispatcher, sasl, now=now)
        self.logins[name] = logins.counters
        return logins

    def inter_broker_network(self, settings: Settings, network: Network) -> Network:
        """`network` for connections to other brokers, secured as the listener is that brokers use among themselves.

        Raises SettingError or DependencyError where its settings cannot serve.
        """
        listener = settings.listener_between_brokers
        protocols = {one.listener_name: one.security_protocol for one in settings.listener_endpoints}
        protocol = protocols.get(listener, settings.security_inter_broker_protocol)
        return self._secure(settings, network, Endpoint(listener, "", 0, protocol), MECHANISM)

    def controller_network(self, settings: Settings, network: Network) -> Network:
        """`network` for connections to controllers, secured as their listener is.

        Raises SettingError or DependencyError where its settings cannot serve.
        """
        endpoint = settings.controller_endpoint
        if endpoint is None:
            return network
        return self._secure(settings, network, endpoint, CONTROLLER_MECHANISM)

    def _secure(
        self, settings: Settings, network: Network, endpoint: Endpoint, mechanism_key: str
    ) -> Network:
        """`network` for connections to listeners as `endpoint`, with the settings of that listener here."""
        if endpoint.security_protocol == "PLAINTEXT":
            return network
        listener = endpoint.listener_name
        mechanism = settings.listener_value(listener, mechanism_key)

        def security(current: Settings) -> ConnectionSecurity:
            def value(key: str) -> SettingValue:
                if key == "sasl.jaas.config":
                    return current.listener_value(listener, key, mechanism=mechanism, is_own=True)
                return current.listener_value(listener, key)

            return late.connection_security(
                endpoint.security_protocol, value, name=f"listener {listener}", mechanism_key=mechanism_key
            )

        secured = late.SecureNetwork(
            network, security(settings), client_id=f"broker-{settings.effective_broker_id}"
        )
        if secured.followed is not None:
            self._follow(secured.followed, lambda current: security(current).tls)
        return secured


def _now_ms() -> int:
    return int(time.time() * 1000)


def write_no_core_file() -> None:
    """From now on, a crash of this process leaves its keys and passwords nowhere.

    Only the present limit is taken away, so an administrator gives it back to a running process that is searched for a
    fault: `prlimit --core=unlimited --pid PID`. Kernels that pipe core files to a program pass it the limit, and
    systemd's and Ubuntu's programs keep to it. Left out: swap space, and programs that may read the process's memory.
    """
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))
