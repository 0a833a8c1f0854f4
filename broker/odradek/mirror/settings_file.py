"""Reads a mirror's property file, which is MirrorMaker 2's (`mm2.properties`), into `settings`.

    clusters = a, b            the aliases
    a.bootstrap.servers = …    any property of Kafka's clients, for one cluster; without `a.` for all
    a->b.enabled = true        a setting of one flow; without `a->b.` for all

What has no meaning here is named in one warning. What is unknown is refused, because it may be a misspelt key.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from odradek.client import properties
from odradek.client.properties import (
    BOOTSTRAP_SERVERS,
    CLIENT_PROPERTIES,
    SECURITY_PROPERTIES,
    read_client_properties,
)
from odradek.foundation.errors import SettingError
from odradek.foundation.settings.declaration import Setting
from odradek.foundation.settings.fields import settings_of
from odradek.foundation.settings.known_names import read_names
from odradek.foundation.settings.tables import read_setting, suggest
from odradek.mirror.settings import ClusterSettings, FlowSettings, MirrorSettings

if TYPE_CHECKING:
    from odradek.foundation.settings.declaration import SettingValue

CLUSTERS: Final = "clusters"
_ARROW: Final = "->"
_Fields = Mapping[str, tuple[str, Setting]]
_FLOW_KEYS: Final[_Fields] = {one.key: (name, one) for name, one in settings_of(FlowSettings).items()}
_MIRROR_KEYS: Final[_Fields] = {one.key: (name, one) for name, one in settings_of(MirrorSettings).items()}
_SECURITY_PREFIXES: Final = ("ssl.", "sasl.", "security.")
# Those that end with * are beginnings. `consumer.auto.offset.reset` is read before they are asked.
_UNUSED_NAMES: Final = read_names(__file__, "unused_settings.tsv")
_UNUSED_KEYS: Final = frozenset(read_names(properties.__file__, "unused_properties.tsv")) | frozenset(
    _UNUSED_NAMES
)
_UNUSED_PREFIXES: Final = tuple(name.removesuffix("*") for name in _UNUSED_NAMES if name.endswith("*"))
# Code of the user's that MirrorMaker would run, by the class that it has without it.
_CLASSES: Final = {
    "topic.filter.class": "DefaultTopicFilter",
    "group.filter.class": "DefaultGroupFilter",
    "config.property.filter.class": "DefaultConfigPropertyFilter",
    "forwarding.admin.class": "ForwardingAdmin",
}
_RENAMED: Final = {
    "topics.blacklist": "topics.exclude",
    "groups.blacklist": "groups.exclude",
    "config.properties.blacklist": "config.properties.exclude",
    "topics.whitelist": "topics",
    "groups.whitelist": "groups",
}


def read_mirror_settings(
    entries: Mapping[str, str], *, source: str, target: str | None = None
) -> MirrorSettings:
    """The settings of the process that mirrors into `target`, by default the only target of enabled flows.

    `source` is the name of the file for errors. Raises SettingError for what cannot be meant.
    """
    return _Reader(entries, source).read(target)


class _Reader:
    """One file. Keys are sorted by what they are for; then each flow gets its own values, and the common ones."""

    def __init__(self, entries: Mapping[str, str], source: str) -> None:
        self._source = source
        self._aliases = tuple(dict.fromkeys(_words(entries.get(CLUSTERS, ""))))
        if not self._aliases:
            raise SettingError(
                f"{source} has no `clusters`; write the aliases of all clusters: clusters = a, b"
            )
        self._common: dict[str, str] = {}
        self._by_flow: dict[tuple[str, str], dict[str, str]] = {}
        self._clients: dict[str, dict[str, str]] = {alias: {} for alias in self._aliases}
        self._common_client: dict[str, str] = {}
        self._mirror: dict[str, str] = {}
        self._unused: list[str] = []
        self._warnings: list[str] = []
        for key, value in entries.items():
            if key != CLUSTERS:
                self._sort(key, value.strip())

    def read(self, target: str | None) -> MirrorSettings:
        enabled = [pair for pair in self._pairs() if self._is_enabled(pair)]
        alias = self._target(target, enabled)
        flows = [self._flow(pair) for pair in self._pairs() if pair[1] == alias]
        values = self._values(_MIRROR_KEYS, self._mirror, where="")
        if self._unused:
            self._warnings.append(
                f"{self._source}: keys of Kafka Connect that a mirror has no use for are ignored: "
                + ", ".join(sorted(self._unused))
            )
        return MirrorSettings(
            target=self._cluster(alias),
            flows=tuple(flow for flow in flows if flow.enabled),
            heartbeat_flows=tuple(
                flow for flow in flows if not flow.enabled and flow.emit_heartbeats_enabled
            ),
            reverse_heartbeat_flows=tuple(self._back(flow) for flow in flows if self._has_reverse(flow)),
            warnings=tuple(dict.fromkeys(self._warnings)),
            **values,
        )

    def _sort(self, key: str, value: str) -> None:
        head, arrow, rest = key.partition(_ARROW)
        if arrow:
            return self._sort_flow_key(key, head.strip(), rest, value)
        alias = next((one for one in self._longest_first() if key.startswith(f"{one}.")), None)
        if alias is not None:
            return self._sort_cluster_key(key, alias, key[len(alias) + 1 :], value)
        if key in _MIRROR_KEYS:
            self._mirror[key] = value
        elif key in _FLOW_KEYS:
            self._common[key] = value
        elif _is_client_key(key):
            self._common_client[key] = value
        else:
            self._note_other(key, key, value)
        return None

    def _sort_flow_key(self, key: str, source_alias: str, rest: str, value: str) -> None:
        target_alias = next((one for one in self._longest_first() if rest.startswith(f"{one}.")), None)
        if source_alias not in self._aliases or target_alias is None:
            raise SettingError(
                f"{self._source}: {key} is not about two of the clusters ({', '.join(self._aliases)}); "
                "add the alias to `clusters`, or correct it"
            )
        name = rest[len(target_alias) + 1 :]
        if name in _FLOW_KEYS:
            self._by_flow.setdefault((source_alias, target_alias), {})[name] = value
        else:
            self._note_other(key, name, value)

    def _sort_cluster_key(self, key: str, alias: str, name: str, value: str) -> None:
        if _is_client_key(name):
            self._clients[alias][name] = value
            return
        if name == "consumer.auto.offset.reset":
            for target_alias in self._aliases:
                self._by_flow.setdefault((alias, target_alias), {}).setdefault(name, value)
            return
        for role in ("consumer.", "producer.", "admin."):
            # Security may be given for each of Connect's clients. Here one client has all roles.
            if name.startswith(role) and name[len(role) :].startswith(_SECURITY_PREFIXES):
                self._clients[alias].setdefault(name[len(role) :], value)
                return
        self._note_other(key, name, value)

    def _note_other(self, key: str, name: str, value: str) -> None:
        if name in _CLASSES:
            if value.rpartition(".")[2] != _CLASSES[name]:
                raise SettingError(
                    f"{self._source}: {key} names code of its own, {value}, which only MirrorMaker can run; remove "
                    "the key, and choose by topics, topics.exclude, groups, groups.exclude, config.properties.exclude"
                )
            return
        if name == "config.providers" or name.startswith("config.providers."):
            raise SettingError(
                f"{self._source}: {key} has no effect here: a value like ${{…}} would be taken as it is. "
                "Write the values themselves, into a file that only the mirror can read"
            )
        if name in _RENAMED:
            raise SettingError(f"{self._source}: {key} is called {_RENAMED[name]} since Kafka 3.0; rename it")
        if _is_unused(name):
            self._unused.append(key)
            return
        known = (CLUSTERS, *_FLOW_KEYS, *_MIRROR_KEYS, *CLIENT_PROPERTIES, *SECURITY_PROPERTIES)
        raise SettingError(
            f"{self._source}: {key} is not a setting of a mirror: correct or remove it{suggest(name, known)}"
        )

    def _target(self, asked: str | None, enabled: Iterable[tuple[str, str]]) -> str:
        targets = list(dict.fromkeys(target for _, target in enabled))
        if asked is not None and asked in targets:
            return asked
        if not targets:
            one, other = (*self._aliases, "b")[:2]
            raise SettingError(
                f"{self._source} enables no flow; set for instance {one}->{other}.enabled = true"
            )
        if asked is not None:
            raise SettingError(
                f"{self._source}: no flow to {asked} is enabled; enabled are flows to {', '.join(targets)}"
            )
        if len(targets) > 1:
            raise SettingError(
                f"{self._source} enables flows to {', '.join(targets)}, and one process writes to one target: run one "
                f"for each, with --target {targets[0]} and so on"
            )
        return targets[0]

    def _pairs(self) -> list[tuple[str, str]]:
        return [(one, other) for one in self._aliases for other in self._aliases if one != other]

    def _is_enabled(self, pair: tuple[str, str]) -> bool:
        return bool(self._values(_FLOW_KEYS, self._get_given(pair), where=_prefix(pair))["enabled"])

    def _has_reverse(self, flow: FlowSettings) -> bool:
        """Whether a flow is mirrored, and only emits heartbeats in the other direction."""
        if not flow.enabled or self._is_enabled((flow.target.alias, flow.source.alias)):
            return False
        return self._back(flow).emit_heartbeats_enabled

    def _back(self, flow: FlowSettings) -> FlowSettings:
        return self._flow((flow.target.alias, flow.source.alias))

    def _get_given(self, pair: tuple[str, str]) -> dict[str, str]:
        return {**self._common, **self._by_flow.get(pair, {})}

    def _flow(self, pair: tuple[str, str]) -> FlowSettings:
        values = self._values(_FLOW_KEYS, self._get_given(pair), where=_prefix(pair))
        needs_source = values["enabled"]
        return FlowSettings(
            source=self._cluster(pair[0]) if needs_source else ClusterSettings(pair[0], {}),
            target=self._cluster(pair[1]),
            **values,
        )

    def _values(self, declared: _Fields, given: Mapping[str, str], *, where: str) -> dict[str, SettingValue]:
        where = f"{self._source}: {where}"
        return {name: read_setting(one, given.get(key), where=where) for key, (name, one) in declared.items()}

    def _cluster(self, alias: str) -> ClusterSettings:
        entries = {**self._common_client, **self._clients[alias]}
        if BOOTSTRAP_SERVERS not in self._clients[alias]:
            raise SettingError(
                f"{self._source} has no {alias}.{BOOTSTRAP_SERVERS}; write the addresses of brokers of cluster {alias}"
            )
        read = read_client_properties(entries, source=f"{self._source}, cluster {alias}")
        self._warnings += read.warnings
        return ClusterSettings(alias, read.values)

    def _longest_first(self) -> list[str]:
        return sorted(self._aliases, key=len, reverse=True)


def _prefix(pair: tuple[str, str]) -> str:
    return f"{pair[0]}{_ARROW}{pair[1]}."


def _is_client_key(key: str) -> bool:
    return key in CLIENT_PROPERTIES or key in SECURITY_PROPERTIES or key.startswith(_SECURITY_PREFIXES)


def _words(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _is_unused(key: str) -> bool:
    """Whether MirrorMaker knows this key, and a mirror has no use for it."""
    return key in _UNUSED_KEYS or key.startswith(_UNUSED_PREFIXES)
