"""What a bundle has of the cluster, asked through the client: one document for each part, without names of users.

Names that a document holds are added to the cover first. The doctor's facts serve several parts, and are asked once.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from odradek.cli.cluster.bundle.masking import MASK, is_secret, is_suspicious
from odradek.cli.cluster.bundle.pseudonyms import GROUP, HOST, TOPIC, USER, NameCover
from odradek.cli.cluster.findings import describe_findings
from odradek.cli.cluster.status_view import health_document
from odradek.client.addresses import parse_addresses
from odradek.client.admin.acls import AclAdmin
from odradek.client.admin.configs import ConfigAdmin
from odradek.client.admin.diagnosis import TRANSACTIONS, Facts, diagnose, find_passed
from odradek.client.admin.diagnosis_probes import find_facts
from odradek.client.admin.group_members import count_members
from odradek.client.admin.groups import SHARE
from odradek.client.admin.health_probes import cluster_health
from odradek.client.admin.quotas import QuotaAdmin
from odradek.client.admin.scram import ScramAdmin
from odradek.client.admin.transactions import TransactionAdmin
from odradek.client.admin.versions import api_name, broker_versions
from odradek.client.client import Client
from odradek.client.results import ConfigEntry, ConfigSource, ResourceType
from odradek.console.cluster_facts import list_groups, list_topics
from odradek.foundation.client_entities import ClientEntity
from odradek.foundation.errors import OdradekError
from odradek.foundation.ids import TopicPartition
from odradek.foundation.security_errors import SecurityDisabled
from odradek.foundation.support_limits import (
    SUPPORT_BROKERS_ASKED_MAX,
    SUPPORT_PARTITIONS_MAX,
    SUPPORT_TOPICS_ASKED_MAX,
    SUPPORT_TROUBLED_MAX,
)

Document = dict[str, object]
Part = Callable[[], Awaitable[object]]
LeaveOut = Callable[[str, str], None]
# A topic's settings that come from its brokers are in the brokers' documents.
_OF_TOPICS: Final = (ConfigSource.TOPIC,)


class ClusterParts:
    """The parts of the cluster of `client`. Each raises OdradekError or OSError where it cannot be had."""

    def __init__(
        self, client: Client, *, bootstrap: str, security_protocol: str, cover: NameCover, covers_all: bool
    ) -> None:
        self._client = client
        self._bootstrap = bootstrap
        self._security_protocol = security_protocol
        self._cover = cover
        self._covers_all = covers_all
        self._facts: Facts | None = None

    def parts(self, leave_out: LeaveOut) -> Mapping[str, Part]:
        """All parts by the name of their file, in the order in which they are asked."""
        return {
            "names": self._learn_users,
            "cluster": lambda: self._describe_cluster(leave_out),
            "topics": lambda: self._list_topics(leave_out),
            "groups": self._list_groups,
            "findings": self._find,
            "transactions": self._list_transactions,
            "settings": lambda: self._describe_settings(leave_out),
            "security": self._count_security,
        }

    def _learn(self, kind: str, names: Sequence[str]) -> None:
        """Names that look like secrets get a pseudonym in any case."""
        self._cover.add(kind, names if self._covers_all else [one for one in names if is_suspicious(one)])

    async def _learn_users(self) -> object:
        """The names of users and clients, so that logs and pages can be covered. They are in no document."""
        for ask in (self._users_of_acls, self._users_of_credentials, self._names_of_quotas):
            try:
                self._learn(USER, await ask())
            except OdradekError:
                continue  # the part that counts them says why
        return None

    async def _users_of_acls(self) -> list[str]:
        return [one.entry.principal.partition(":")[2] for one in await AclAdmin(self._client).list()]

    async def _users_of_credentials(self) -> list[str]:
        return list(await ScramAdmin(self._client).describe())

    async def _names_of_quotas(self) -> list[str]:
        found = await QuotaAdmin(self._client).describe()
        return [name for one in found for name in one.entity if name]

    async def _describe_cluster(self, leave_out: LeaveOut) -> object:
        health = await cluster_health(self._client)
        hosts = [one.address.rpartition(":")[0].strip("[]") for one in health.brokers if one.address]
        self._learn(HOST, [*hosts, *(one.host for one in parse_addresses(self._bootstrap))])
        self._learn(TOPIC, list(self._client.cluster.topics))
        document = health_document(health)
        troubled = document["problem_partitions"]
        assert isinstance(troubled, list)
        if len(troubled) > SUPPORT_TROUBLED_MAX:
            leave_out(
                "partitions with a problem", f"{len(troubled) - SUPPORT_TROUBLED_MAX} beyond the worst ones"
            )
            document["problem_partitions"] = troubled[:SUPPORT_TROUBLED_MAX]
        versions = await broker_versions(self._client)
        document["versions"] = {
            str(broker): {
                "apis": {api_name(key): list(span) for key, span in sorted(one.apis.items())},
                "supported_features": {name: list(span) for name, span in one.supported_features.items()},
                "finalized_features": dict(one.finalized_features),
                "finalized_epoch": one.finalized_epoch,
            }
            for broker, one in versions.items()
        }
        return document

    async def _list_topics(self, leave_out: LeaveOut) -> object:
        fact = await list_topics(self._client)
        self._learn(TOPIC, list(fact.topics))
        left = SUPPORT_PARTITIONS_MAX
        shown: list[Document] = []
        for topic in fact.topics.values():
            some = topic.partitions[:left]
            left -= len(some)
            shown.append(
                {
                    "topic": topic.name,
                    "id": str(topic.id),
                    "error_code": topic.error_code,
                    "partitions_total": len(topic.partitions),
                    "partitions": [
                        {
                            "partition": one.partition,
                            "leader": one.leader,
                            "leader_epoch": one.leader_epoch,
                            "replicas": one.replicas,
                            "in_sync": one.in_sync_replicas,
                            "offline": one.offline_replicas,
                            "bytes": fact.sizes.get(TopicPartition(topic.name, one.partition), {}),
                        }
                        for one in some
                    ],
                }
            )
        total = sum(len(topic.partitions) for topic in fact.topics.values())
        if total > SUPPORT_PARTITIONS_MAX:
            leave_out(
                "partitions", f"of {total} the first {SUPPORT_PARTITIONS_MAX} by topic have their replicas"
            )
        return {"topics": shown, "disks_not_answered": {str(one): why for one, why in fact.silent.items()}}

    async def _list_groups(self) -> object:
        fact = await list_groups(self._client)
        self._learn(GROUP, list(fact.groups))
        listings = [one.listing for one in fact.groups.values()]
        members = await count_members(self._client, listings, fact.coordinators)
        rows = [
            {
                "group": one.listing.group_id,
                "type": one.listing.type,
                "protocol": one.listing.protocol_type,
                "state": one.listing.state,
                "coordinator": fact.coordinators.get(one.listing.group_id),
                "members": members.get(one.listing.group_id),
                "partitions": one.partitions,
                "lag": one.lag,
                "lag_of_topics": [{"topic": topic, "lag": lag} for topic, lag in one.lag_by_topic.items()],
                "error": one.error,
            }
            for one in fact.groups.values()
        ]
        return {
            "groups": [row for row in rows if row["type"] != SHARE],
            "queues": [row for row in rows if row["type"] == SHARE],
            "brokers_not_answered": {str(one): why for one, why in fact.silent.items()},
        }

    async def _ask_doctor(self) -> Facts:
        if self._facts is None:
            self._facts = await find_facts(
                self._client,
                bootstrap=parse_addresses(self._bootstrap),
                security_protocol=self._security_protocol,
                now_ms=lambda: time.time_ns() // 1_000_000,
            )
        return self._facts

    async def _find(self) -> object:
        facts = await self._ask_doctor()
        found = diagnose(facts)
        return {
            "findings": describe_findings(found),
            "passed": find_passed(facts, found),
            "unasked": dict(facts.unasked),
        }

    async def _list_transactions(self) -> object:
        """Those that hang, by the doctor's facts, and how many there are in each state. No id is named."""
        facts = await self._ask_doctor()
        listed = await TransactionAdmin(self._client).list()
        return {
            "hanging": [str(one) for one in facts.hanging[:SUPPORT_TROUBLED_MAX]],
            "hanging_total": len(facts.hanging),
            "hanging_not_asked": facts.unasked.get(TRANSACTIONS),
            "states": dict(Counter(one.state for one in listed)),
        }

    async def _describe_settings(self, leave_out: LeaveOut) -> object:
        admin, cluster = ConfigAdmin(self._client), await self._client.refresh(None)
        brokers, names = sorted(cluster.brokers), sorted(cluster.topics)
        for what, number, most in (
            ("settings of brokers", len(brokers), SUPPORT_BROKERS_ASKED_MAX),
            ("settings of topics", len(names), SUPPORT_TOPICS_ASKED_MAX),
        ):
            if number > most:
                leave_out(what, f"of {number} the first {most} were asked")
        of_brokers: Document = {}
        for number in brokers[:SUPPORT_BROKERS_ASKED_MAX]:
            try:
                entries = await admin.describe(ResourceType.BROKER, str(number))
                of_brokers[str(number)] = [_setting(one) for one in entries if not one.is_default]
            except OdradekError as failure:
                of_brokers[str(number)] = str(failure)
        found = await admin.describe_many(ResourceType.TOPIC, names[:SUPPORT_TOPICS_ASKED_MAX])
        of_topics: list[Document] = []
        for name, answer in found.items():
            if isinstance(answer, OdradekError):
                of_topics.append({"topic": name, "error": str(answer)})
            elif own := [_setting(one) for one in answer if one.source in _OF_TOPICS]:
                of_topics.append({"topic": name, "settings": own})
        return {
            "brokers": of_brokers,
            "topics": of_topics,
            "defaults": "settings that are not here have the default of their broker's version",
        }

    async def _count_security(self) -> object:
        """How many ACLs, credentials and quotas there are. Each that cannot be asked says why."""
        return {
            "acls": await _count(self._count_acls),
            "users_of_scram": await _count(self._count_credentials),
            "quotas": await _count(self._count_quotas),
        }

    async def _count_acls(self) -> object:
        acls = await AclAdmin(self._client).list()
        kinds = Counter(
            f"{one.pattern.type.name} {one.entry.operation.name} {one.entry.permission.name}".lower()
            for one in acls
        )
        return {
            "total": len(acls),
            "users": len({one.entry.principal for one in acls}),
            "kinds": dict(sorted(kinds.items())),
        }

    async def _count_credentials(self) -> object:
        found = await ScramAdmin(self._client).describe()
        return {
            "users": len(found),
            "mechanisms": dict(Counter(name for of_user in found.values() for name in of_user)),
        }

    async def _count_quotas(self) -> object:
        found = await QuotaAdmin(self._client).describe()
        return {
            "total": len(found),
            "of": dict(Counter(_kind_of(one.entity) for one in found)),
            "keys": dict(Counter(key for one in found for key in one.values)),
        }


async def _count(ask: Part) -> object:
    try:
        return await ask()
    except SecurityDisabled:
        return "there is no authorizer"
    except OdradekError as failure:
        return f"not asked: {failure}"


def _kind_of(entity: ClientEntity) -> str:
    """`user, client_id`, without the names."""
    return ", ".join(part for part, name in zip(entity._fields, entity, strict=True) if name is not None)


def _setting(entry: ConfigEntry) -> Document:
    is_hidden = entry.is_sensitive or is_secret(entry.name)
    return {
        "setting": entry.name,
        # The broker answers none of a secret.
        "value": MASK if is_hidden and entry.value else entry.value,
        "source": entry.source.name.lower(),
        "is_secret": is_hidden,
    }
