"""What is wrong or risky with a cluster and how it is set up: all rules of `odradek doctor`, pure.

`health` judges what the cluster serves at this moment. This module adds what is likely to go wrong: addresses, copies,
settings, groups, transactions, clocks, certificates and rights. `diagnosis_probes` asks for the facts. A rule looks at
the facts alone. What could not be asked is named, so that silence is never taken for health.
"""

from __future__ import annotations

import ipaddress
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from odradek.client.addresses import Address
from odradek.client.admin.health import REBALANCING_STATES, ClusterHealth, Verdict
from odradek.client.metadata import TopicInfo
from odradek.foundation.ids import TopicPartition
from odradek.foundation.words import count
from odradek.metadata.image.topic_names import TRANSACTION_STATE
from odradek.wire.protocol.group_partitions import OFFSETS_TOPIC

# A cluster of fewer brokers cannot hold three copies, which is the usual number.
_COPIES: Final = 3
# Names in one sentence; the rest is counted.
_NAMES_MAX: Final = 5
_CERTIFICATE_DAYS_MIN: Final = 30
_DAY_MS: Final = 86_400_000
# Records are this much ahead of a correct clock only by mistake.
CLOCK_AHEAD_MS_MAX: Final = 60_000
COORDINATORS_TOPICS: Final = (OFFSETS_TOPIC, TRANSACTION_STATE)

# What is asked for, each on its own, as `Facts.unasked` names it.
TOPIC_SETTINGS: Final = "the settings of topics"
BROKER_SETTINGS: Final = "the settings of brokers"
PROCESSES: Final = "the brokers one by one"
GROUPS: Final = "groups"
TRANSACTIONS: Final = "transactions"
TIMES: Final = "times of brokers"
RIGHTS: Final = "access rights"
# The checks that need it: without it none of them is passed.
NEEDED_BY: Final[Mapping[str, tuple[str, ...]]] = {
    TOPIC_SETTINGS: ("copies", "settings"),
    BROKER_SETTINGS: ("settings", "rights"),
    PROCESSES: ("addresses", "certificates"),
    GROUPS: ("groups",),
    TRANSACTIONS: ("transactions",),
    TIMES: ("clocks",),
    RIGHTS: ("rights",),
}
# Brokers that differ in one of these give clients different answers, by chance.
SAME_ON_ALL_BROKERS: Final = (
    "auto.create.topics.enable",
    "authorizer.class.name",
    "compression.type",
    "default.replication.factor",
    "inter.broker.listener.name",
    "log.cleanup.policy",
    "log.retention.bytes",
    "log.retention.ms",
    "message.max.bytes",
    "min.insync.replicas",
    "num.partitions",
    "offsets.retention.minutes",
    "offsets.topic.replication.factor",
    "security.inter.broker.protocol",
    "super.users",
    "transaction.max.timeout.ms",
    "unclean.leader.election.enable",
)


class Severity(IntEnum):
    """How bad a finding is; a higher number is worse."""

    NOTE = 0
    """Worth knowing, and often meant."""
    WARNING = 1
    """It works, and will fail or lose records when something else happens."""
    PROBLEM = 2
    """Something does not work."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One finding: of which check, what is so, and what to do."""

    severity: Severity
    check: str
    words: str
    advice: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFacts:
    """A group at the first and second look. `behind_start` are records that it has not read and that are gone."""

    group_id: str
    state: str
    later_state: str
    lag: int = 0
    behind_start: Mapping[TopicPartition, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """All that the rules look at. Texts of settings are as the brokers give them."""

    health: ClusterHealth
    now_ms: int
    bootstrap: tuple[Address, ...]
    security_protocol: str = "PLAINTEXT"
    addresses: Mapping[int, Address]
    """What each live broker advertises."""
    racks: Mapping[int, str | None]
    cluster_ids: Mapping[int, str] = field(default_factory=dict)
    """As the process says that answers at each broker's address."""
    topics: Sequence[TopicInfo] = ()
    topic_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    broker_configs: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    groups: Sequence[GroupFacts] = ()
    hanging: Sequence[TopicPartition] = ()
    """Partitions with a transaction that no coordinator knows."""
    newest_ms: Mapping[TopicPartition, int] = field(default_factory=dict)
    """The newest timestamps of partitions that brokers themselves write."""
    certificates: Mapping[int, int] = field(default_factory=dict)
    """When the certificate that a broker shows expires, in ms since 1970."""
    has_authorizer: bool | None = None
    """None where it is not known."""
    open_to_all: Sequence[str] = ()
    """ACLs that let every user do everything, in words."""
    unasked: Mapping[str, str] = field(default_factory=dict)
    """What could not be asked for, and why."""


def find_passed(facts: Facts, found: Iterable[Diagnosis]) -> list[str]:
    """The checks that found nothing, and for which all could be asked."""
    left_out = {check for what in facts.unasked for check in NEEDED_BY[what]} | {one.check for one in found}
    return [name for name in RULES if name not in left_out and name != "unasked"]


def diagnose(facts: Facts) -> list[Diagnosis]:
    """All findings, the worst first."""
    found = [one for name, rule in RULES.items() for one in _apply(name, rule, facts)]
    return sorted(found, key=lambda one: -one.severity)


Found = Iterator[tuple[Severity, str, str]]


def _apply(name: str, rule: Callable[[Facts], Found], facts: Facts) -> Iterator[Diagnosis]:
    for severity, words, advice in rule(facts):
        yield Diagnosis(severity, name, words, advice)


def _names(names: Iterable[object]) -> str:
    """The first of these names, and how many there are besides."""
    shown = sorted(map(str, names))
    rest = len(shown) - _NAMES_MAX
    text = ", ".join(shown[:_NAMES_MAX])
    return f"{text} and {rest} more" if rest > 0 else text


# --- what the cluster serves -----------------------------------------------------------------------------------------


def _judge_health(facts: Facts) -> Found:
    severities = {Verdict.DEGRADED: Severity.WARNING, Verdict.UNHEALTHY: Severity.PROBLEM}
    for finding in facts.health.findings:
        if finding.verdict in severities:
            yield severities[finding.verdict], finding.words, finding.advice


# --- addresses -------------------------------------------------------------------------------------------------------


def _judge_addresses(facts: Facts) -> Found:
    by_address: dict[Address, list[int]] = {}
    for broker, address in facts.addresses.items():
        by_address.setdefault(address, []).append(broker)
        if is_loopback(address.host) and not all(is_loopback(one.host) for one in facts.bootstrap):
            yield (
                Severity.PROBLEM,
                f"broker {broker} advertises {address}, which means this machine to every client",
                f"set advertised.listeners of broker {broker} to an address that clients reach",
            )
    for address, brokers in by_address.items():
        if len(brokers) > 1:
            yield (
                Severity.PROBLEM,
                f"brokers {_names(brokers)} advertise the same address, {address}",
                "give each an address or port of its own in advertised.listeners",
            )
    for broker, cluster_id in facts.cluster_ids.items():
        if cluster_id != facts.health.cluster_id:
            yield (
                Severity.PROBLEM,
                f"at the address of broker {broker}, {facts.addresses.get(broker)}, answers a broker of another "
                f"cluster, {cluster_id}",
                f"correct advertised.listeners of broker {broker}, or the name or route that leads there",
            )


def is_loopback(host: str) -> bool:
    """Whether the address means the machine that uses it."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost" or host.lower().endswith(".localhost")


# --- copies ----------------------------------------------------------------------------------------------------------


def _judge_copies(facts: Facts) -> Found:
    brokers, single, blocked, fewer = len(facts.addresses), [], [], []
    for topic in facts.topics:
        copies = min((len(one.replicas) for one in topic.partitions), default=0)
        least = _number(facts.topic_configs.get(topic.name, {}).get("min.insync.replicas"))
        # Above the number of copies it counts as that number (KIP-966).
        if copies and least > copies:
            fewer.append(topic.name)
        if copies > 1 and least >= copies:
            blocked.append(topic.name)
        if copies == 1 and not topic.name.startswith("__"):
            single.append(topic.name)
        wanted = min(brokers, _COPIES)
        if topic.name in COORDINATORS_TOPICS and copies < wanted:
            yield (
                Severity.WARNING,
                f"{topic.name} has {copies} of {wanted} copies in a cluster of {count(brokers, 'broker')}: "
                "groups or transactions stop with a broker",
                f"odradek topics alter {topic.name} --replication-factor {wanted}",
            )
    if fewer:
        yield (
            Severity.WARNING,
            f"min.insync.replicas asks for more copies than there are: {_names(fewer)}",
            "give these topics more copies, or lower min.insync.replicas to what is meant",
        )
    if blocked:
        yield (
            Severity.WARNING,
            f"acks=all writes stop with any broker, as min.insync.replicas leaves no copy to spare: {_names(blocked)}",
            "set min.insync.replicas one lower than the number of copies",
        )
    if single and brokers > 1:
        yield (
            Severity.WARNING,
            f"{count(len(single), 'topic')} with one copy in a cluster of {brokers} brokers: {_names(single)}",
            "odradek topics alter TOPIC --replication-factor 3, where the records matter",
        )


def _judge_racks(facts: Facts) -> Found:
    without = [broker for broker, rack in facts.racks.items() if not rack]
    if without and len(without) < len(facts.racks):
        yield (
            Severity.WARNING,
            f"brokers {_names(without)} have no rack, and others have: copies are not spread over racks",
            "set broker.rack on all brokers, or on none",
        )


# --- settings --------------------------------------------------------------------------------------------------------


def _judge_settings(facts: Facts) -> Found:
    brokers = facts.broker_configs
    for key in SAME_ON_ALL_BROKERS:
        values: dict[str, list[int]] = {}
        for broker, configs in brokers.items():
            if key in configs:
                values.setdefault(configs[key], []).append(broker)
        if len(values) > 1:
            differ = "; ".join(f"{text!r} on {_names(where)}" for text, where in sorted(values.items()))
            yield (
                Severity.WARNING,
                f"{key} differs between brokers: {differ}",
                "give all brokers the same value",
            )
    unclean = [
        name
        for name, configs in facts.topic_configs.items()
        if configs.get("unclean.leader.election.enable") == "true"
    ]
    if unclean:
        yield (
            Severity.WARNING,
            f"unclean.leader.election.enable is true, so acknowledged records may be lost: {_names(unclean)}",
            "delete this setting of the topics, or of the brokers",
        )
    if len(facts.addresses) >= _COPIES:
        ones = [
            one for one, configs in brokers.items() if _number(configs.get("default.replication.factor")) == 1
        ]
        if ones:
            yield (
                Severity.WARNING,
                f"default.replication.factor is 1 on brokers {_names(ones)}: new topics have one copy",
                "set default.replication.factor=3 and min.insync.replicas=2",
            )
    offsets = facts.topic_configs.get("__consumer_offsets", {}).get("cleanup.policy", "compact")
    if "compact" not in offsets:
        yield (
            Severity.PROBLEM,
            f"cleanup.policy of __consumer_offsets is {offsets}: offsets of groups are deleted by age",
            "odradek configs set topic __consumer_offsets cleanup.policy=compact",
        )
    bounds = [_number(one.get("socket.request.max.bytes")) for one in brokers.values()]
    bound = min((one for one in bounds if one), default=0)
    for name, configs in facts.topic_configs.items():
        largest = _number(configs.get("max.message.bytes"))
        if bound and largest > bound:
            yield (
                Severity.WARNING,
                f"max.message.bytes of {name} is {largest}, and brokers take requests of {bound} bytes at most",
                "raise socket.request.max.bytes, or lower max.message.bytes",
            )


def _number(text: str | None) -> int:
    """The number in a setting's text; 0 where there is none."""
    return int(text) if text is not None and text.lstrip("-").isdigit() else 0


# --- groups, transactions, clocks ------------------------------------------------------------------------------------


def _judge_groups(facts: Facts) -> Found:
    for group in facts.groups:
        if group.state in REBALANCING_STATES and group.later_state in REBALANCING_STATES:
            yield (
                Severity.WARNING,
                f"group {group.group_id} was rebalancing at both looks ({group.state}, {group.later_state})",
                f"`odradek groups describe {shlex.quote(group.group_id)}` shows which member does not poll",
            )
        if group.behind_start:
            lost = sum(group.behind_start.values())
            yield (
                Severity.WARNING,
                f"group {group.group_id} has not read {count(lost, 'record')} that retention has deleted, in "
                f"{_names(group.behind_start)}",
                "let the group read faster, or raise the retention of the topic",
            )
        elif group.state == "Empty" and group.lag:
            yield (
                Severity.NOTE,
                f"group {group.group_id} has no members, and {count(group.lag, 'record')} to read",
                f"start its consumers, or `odradek groups delete {shlex.quote(group.group_id)}`",
            )


def _judge_transactions(facts: Facts) -> Found:
    if facts.hanging:
        yield (
            Severity.PROBLEM,
            f"transactions hang in {_names(facts.hanging)}: readers of committed records wait for ever",
            "odradek transactions find-hanging, then odradek transactions abort",
        )


def _judge_clocks(facts: Facts) -> Found:
    ahead: dict[int, int] = {}
    leaders = {
        TopicPartition(topic.name, one.partition): one.leader
        for topic in facts.topics
        for one in topic.partitions
    }
    for partition, newest_ms in facts.newest_ms.items():
        broker, ahead_ms = leaders.get(partition, -1), newest_ms - facts.now_ms
        if ahead_ms > CLOCK_AHEAD_MS_MAX:
            ahead[broker] = max(ahead.get(broker, 0), ahead_ms)
    for broker, ahead_ms in sorted(ahead.items()):
        yield (
            Severity.WARNING,
            f"a leader of internal topics wrote times {ahead_ms // 1000} s ahead of this machine's clock (now led by "
            f"broker {broker})",
            "compare the clocks of this machine and the brokers, and let all follow one time server",
        )


# --- certificates and rights -----------------------------------------------------------------------------------------


def _judge_certificates(facts: Facts) -> Found:
    for broker, expires_ms in facts.certificates.items():
        days = (expires_ms - facts.now_ms) / _DAY_MS
        if days < _CERTIFICATE_DAYS_MIN:
            yield (
                Severity.PROBLEM if days < 1 else Severity.WARNING,
                f"the certificate of broker {broker} expires in {max(days, 0):.0f} days",
                "renew it; brokers read a changed key store without a restart",
            )


def _judge_rights(facts: Facts) -> Found:
    is_local = all(is_loopback(one.host) for one in (*facts.bootstrap, *facts.addresses.values()))
    if facts.has_authorizer is False and not is_local:
        yield (
            Severity.WARNING,
            "there is no authorizer: each client that reaches a broker may read, write and delete everything",
            "see docs/security.md: logins, then authorizer.class.name",
        )
    if facts.security_protocol == "SASL_PLAINTEXT" and not is_local:
        yield (
            Severity.WARNING,
            "logins and records cross the network without encryption (SASL_PLAINTEXT)",
            "use a listener with SASL_SSL",
        )
    for words in facts.open_to_all:
        yield (
            Severity.WARNING,
            f"an ACL is open to all users: {words}",
            "remove it with `odradek acls remove`, and add narrower ones",
        )
    everyone = [
        broker
        for broker, configs in facts.broker_configs.items()
        if configs.get("allow.everyone.if.no.acl.found") == "true" and facts.has_authorizer
    ]
    if everyone:
        yield (
            Severity.WARNING,
            f"allow.everyone.if.no.acl.found is true on brokers {_names(everyone)}: what has no ACL is open",
            "add the ACLs that are needed, then set it to false",
        )


def _name_unasked(facts: Facts) -> Found:
    for what, reason in facts.unasked.items():
        yield Severity.NOTE, f"{what} could not be looked at: {reason}", ""


RULES: Final[Mapping[str, Callable[[Facts], Found]]] = {
    "health": _judge_health,
    "addresses": _judge_addresses,
    "copies": _judge_copies,
    "racks": _judge_racks,
    "settings": _judge_settings,
    "groups": _judge_groups,
    "transactions": _judge_transactions,
    "clocks": _judge_clocks,
    "certificates": _judge_certificates,
    "rights": _judge_rights,
    "unasked": _name_unasked,
}
"""The checks by name, in the order of their findings."""
