"""The values of a broker's settings, by attribute, and the values derived from several. Kafka has several keys for one
value (`log.retention.hours`, `.minutes`, `.ms`); a property returns the one in force. `settings` reads and checks
texts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from odradek.foundation.endpoints import Endpoint, parse_endpoints, parse_protocol_map
from odradek.foundation.errors import SettingError
from odradek.foundation.settings.areas.authorization import AuthorizationSettings
from odradek.foundation.settings.areas.groups import (
    ConsumerGroupSettings,
    GroupSettings,
    OffsetSettings,
    ProducerSettings,
    ShareGroupSettings,
    ShareStateSettings,
    StreamsGroupSettings,
)
from odradek.foundation.settings.areas.logs import (
    CleanerSettings,
    MessageSettings,
    RetentionSettings,
    SegmentSettings,
    TopicSettings,
)
from odradek.foundation.settings.areas.network import ConnectionSettings, IdentitySettings, ListenerSettings
from odradek.foundation.settings.areas.quotas import QuotaSettings
from odradek.foundation.settings.areas.replicas import ControllerSettings, ReplicaSettings
from odradek.foundation.settings.areas.security import SaslSettings, TlsSettings, TokenSettings
from odradek.foundation.settings.areas.telemetry import TelemetrySettings, TraceSettings

MS_PER_MINUTE: Final = 60_000
MS_PER_HOUR: Final = 3_600_000
_DEFAULT_NODE_ID: Final = 1


class SettingValues(
    IdentitySettings,
    ListenerSettings,
    ConnectionSettings,
    TlsSettings,
    SaslSettings,
    TokenSettings,
    TopicSettings,
    SegmentSettings,
    RetentionSettings,
    MessageSettings,
    CleanerSettings,
    GroupSettings,
    ConsumerGroupSettings,
    ShareGroupSettings,
    ShareStateSettings,
    StreamsGroupSettings,
    OffsetSettings,
    ProducerSettings,
    ReplicaSettings,
    QuotaSettings,
    TelemetrySettings,
    TraceSettings,
    ControllerSettings,
    AuthorizationSettings,
):
    """One value for each setting that is used; see `broker_settings` for the declarations."""

    @property
    def effective_broker_id(self) -> int:
        """node.id, else broker.id, else 1."""
        if self.node_id is not None:
            return self.node_id
        return self.broker_id if self.broker_id >= 0 else _DEFAULT_NODE_ID

    @property
    def log_directories(self) -> tuple[str, ...]:
        """log.dirs, else log.dir, as paths in order."""
        paths = self.log_dirs or self.log_dir
        return tuple(path.strip() for path in paths.split(",") if path.strip())

    @property
    def effective_retention_ms(self) -> int:
        """log.retention.ms, else .minutes, else .hours; -1 for ever."""
        if self.log_retention_ms is not None:
            value = self.log_retention_ms
        elif self.log_retention_minutes is not None:
            value = self.log_retention_minutes * MS_PER_MINUTE
        else:
            value = self.log_retention_hours * MS_PER_HOUR
        return value if value >= 0 else -1

    @property
    def effective_roll_ms(self) -> int:
        """log.roll.ms, else log.roll.hours."""
        return self.log_roll_hours * MS_PER_HOUR if self.log_roll_ms is None else self.log_roll_ms

    @property
    def effective_roll_jitter_ms(self) -> int:
        """log.roll.jitter.ms, else log.roll.jitter.hours."""
        jitter_ms = self.log_roll_jitter_ms
        return self.log_roll_jitter_hours * MS_PER_HOUR if jitter_ms is None else jitter_ms

    @property
    def effective_flush_ms(self) -> int:
        """log.flush.interval.ms, else log.flush.scheduler.interval.ms."""
        flush_ms = self.log_flush_interval_ms
        return self.log_flush_scheduler_interval_ms if flush_ms is None else flush_ms

    @property
    def listener_endpoints(self) -> tuple[Endpoint, ...]:
        """Where to listen, from `listeners`; a host of "" is every interface, port 0 a free one."""
        return parse_endpoints(
            self.listeners, key="listeners", protocols=parse_protocol_map(self.listener_security_protocol_map)
        )

    @property
    def advertised_endpoints(self) -> tuple[Endpoint, ...]:
        """The addresses for clients: advertised.listeners, else listeners.

        `endpoints.complete` fills in hosts of "" and ports of 0 once the sockets are bound.
        """
        if not self.advertised_listeners:
            return self.listener_endpoints
        return parse_endpoints(
            self.advertised_listeners,
            key="advertised.listeners",
            protocols=parse_protocol_map(self.listener_security_protocol_map),
        )

    @property
    def controller_endpoint(self) -> Endpoint | None:
        """The controllers' listener as a broker knows it, without an address; None where no name is given.

        A name that listener.security.protocol.map does not have is PLAINTEXT. Raises SettingError for a wrong map.
        """
        name = (self.controller_listener_names or "").partition(",")[0].strip().upper()
        if not name:
            return None
        protocols = parse_protocol_map(self.listener_security_protocol_map)
        return Endpoint(name, "", 0, protocols.get(name, "PLAINTEXT"))

    @property
    def admin_endpoint(self) -> Endpoint | None:
        """The listener that protects the port of --admin, without an address; None where it has no protection.

        Raises SettingError for a wrong map, and for a name that the map does not have.
        """
        name = (self.admin_listener_name or "").strip().upper()
        if not name:
            return None
        protocols = parse_protocol_map(self.listener_security_protocol_map)
        if name not in protocols:
            raise SettingError(
                f"Invalid value {self.admin_listener_name} for configuration admin.listener.name: the listener {name} "
                f"has no security protocol; add {name}:SASL_SSL to listener.security.protocol.map"
            )
        endpoint = Endpoint(name, "", 0, protocols[name])
        return None if endpoint.security_protocol == "PLAINTEXT" else endpoint

    @property
    def connections_per_ip_overrides(self) -> Mapping[str, int]:
        """max.connections.per.ip.overrides, as limit by address. Raises SettingError when it cannot be read."""
        bounds: dict[str, int] = {}
        for pair in filter(None, (word.strip() for word in self.max_connections_per_ip_overrides.split(","))):
            address, colon, count = pair.rpartition(":")
            if not colon or not address or not count.isdecimal():
                raise SettingError(
                    f"Invalid value {self.max_connections_per_ip_overrides} for configuration "
                    "max.connections.per.ip.overrides: it must be address:count pairs parted by commas, as 10.0.0.1:100"
                )
            bounds[address.strip("[]")] = int(count)
        return bounds


# The groups of settings, in the order of declaration.
AREAS: Final = SettingValues.__bases__
