"""What other machines learn from the HTTP port: numbers, and the names that they may describe without a login."""

from __future__ import annotations

import pytest

from odradek.foundation.metrics import METRICS, MetricsRegistry, Sample
from odradek.foundation.settings.broker_settings import Settings
from odradek.security.authorization.acls import AclOperation, AclResourceType
from odradek.server.http.broker_metrics import register
from odradek.server.http.visible_names import (
    LABEL_RESOURCES,
    NoNames,
    admits_anonymous,
    may_alter,
    names_for,
    visible_samples,
)
from tests.support.rights import CLUSTER, DESCRIBE, TOPIC, acl
from tests.support.whole_broker import WholeBroker

# Labels whose values come from the broker, its settings or its host.
HARMLESS = {
    "ack_type", "api", "kind", "leader", "listener", "mechanism", "outcome", "partition", "path", "producer_id",
    "protocol",
    "python", "quota", "reason", "replica", "side", "source", "state", "version",
}  # fmt: skip
# What a client says of itself: each metric with such a label has the client's id too, whose right covers it.
OF_CLIENTS = {
    "attributes", "client_instance", "client_rack", "group_member_id", "metric", "node_id", "software_name",
    "software_version",
}  # fmt: skip
STRANGER = "10.0.0.7"


def test_every_label_is_known_to_be_a_name_or_harmless() -> None:
    labels = {label for metric in METRICS.values() for label in metric.labels}
    assert labels == HARMLESS | OF_CLIENTS | LABEL_RESOURCES.keys()
    for metric in METRICS.values():
        assert "client_id" in metric.labels or OF_CLIENTS.isdisjoint(metric.labels)


async def test_samples_have_the_names_that_the_caller_may_describe() -> None:
    guarded = await WholeBroker.start_guarded()
    broker = guarded
    await guarded.allow(acl(DESCRIBE, TOPIC, "seen", principal="User:ANONYMOUS"))
    registry = MetricsRegistry()
    register(broker.broker, registry)
    collected = registry.collect()

    def topics(host: str, principal: str | None = None) -> set[str]:
        visible = visible_samples(collected, names_for(broker.broker, host, principal))
        # Numbers without a name are for all.
        assert METRICS["odradek_topics"] in visible
        return {sample.labels[0] for sample in visible.get(METRICS["odradek_log_end_offset"], [])}

    assert {"seen", "hidden"} <= topics("127.0.0.1")
    assert topics(STRANGER) == {"seen"}
    # Where callers log in, this machine is as any other.
    assert topics("127.0.0.1", "User:alice") == set()
    await guarded.allow(acl(DESCRIBE, TOPIC, "hidden", principal="User:alice"))
    assert topics(STRANGER, "User:alice") == topics("127.0.0.1", "User:alice") == {"hidden"}


async def test_names_of_users_need_a_right_on_the_cluster() -> None:
    metric = METRICS["odradek_quota_client_throttle_seconds"]
    collected = {metric: [Sample(metric, tuple("alice" for _ in metric.labels), 1.0)]}
    guarded = await WholeBroker.start_guarded()
    broker = guarded.broker
    assert visible_samples(collected, names_for(broker, STRANGER)) == {}
    await guarded.allow(acl(DESCRIBE, CLUSTER, principal="User:ANONYMOUS"))
    assert visible_samples(collected, names_for(broker, STRANGER)) == collected


async def test_pushed_metrics_need_the_rights_of_all_that_they_name() -> None:
    metric = METRICS["odradek_client_metric"]
    of_topic = Sample(metric, ("c", "i", "m", "seen", "0", "", ""), 1.0)
    of_none = Sample(metric, ("c", "i", "m", "", "", "1", ""), 1.0)
    guarded = await WholeBroker.start_guarded()
    broker = guarded.broker

    def visible() -> list[Sample]:
        shown = visible_samples({metric: [of_topic, of_none]}, names_for(broker, STRANGER))
        return list(shown.get(metric, []))

    await guarded.allow(acl(DESCRIBE, TOPIC, "seen", principal="User:ANONYMOUS"))
    assert visible() == []
    await guarded.allow(acl(DESCRIBE, CLUSTER, principal="User:ANONYMOUS"))
    assert visible() == [of_topic, of_none]
    await guarded.take_away(acl(DESCRIBE, TOPIC, "seen", principal="User:ANONYMOUS"))
    assert visible() == [of_none]


async def test_what_changes_the_broker_needs_alter_on_the_cluster() -> None:
    guarded = await WholeBroker.start_guarded()
    broker = guarded.broker
    assert may_alter(broker, "127.0.0.1", None)
    assert not may_alter(broker, STRANGER, None)
    assert not may_alter(broker, "127.0.0.1", "User:alice")
    await guarded.allow(acl(AclOperation.ALTER, CLUSTER, principal="User:alice"))
    assert may_alter(broker, STRANGER, "User:alice")
    assert not may_alter(broker, STRANGER, "User:bob")


async def test_during_the_start_strangers_see_no_name() -> None:
    guarded = await WholeBroker.start_guarded()
    broker = guarded.broker
    await guarded.stop()
    assert not names_for(broker, STRANGER).may_see(AclResourceType.TOPIC, "t")
    assert names_for(broker, "::1").may_see(AclResourceType.TOPIC, "t")
    unguarded = await WholeBroker.start()
    assert names_for(unguarded.broker, STRANGER).may_see(AclResourceType.TOPIC, "t")
    await unguarded.stop()


@pytest.mark.parametrize(
    ("protocols", "client_auth", "admitted"),
    [
        ({"A": "PLAINTEXT", "B": "SASL_SSL"}, "none", True),
        ({"A": "SASL_PLAINTEXT", "B": "SASL_SSL"}, "none", False),
        ({"A": "SSL"}, "none", True),
        ({"A": "SSL"}, "requested", True),
        ({"A": "SSL", "B": "SASL_SSL"}, "required", False),
    ],
)
def test_a_listener_without_a_login_shows_every_name(
    protocols: dict[str, str], client_auth: str, admitted: bool
) -> None:
    entries = {
        "listeners": ",".join(f"{name}://127.0.0.1:{9092 + at}" for at, name in enumerate(protocols)),
        "listener.security.protocol.map": ",".join(f"{name}:{kind}" for name, kind in protocols.items()),
    }
    if "SSL" in protocols.values():
        entries["ssl.client.auth"] = client_auth
    assert admits_anonymous(Settings(entries)) is admitted
    assert not NoNames().may_see(AclResourceType.CLUSTER, "")
