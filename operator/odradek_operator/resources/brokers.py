"""The brokers and controllers of a Cluster, as wanted, and which of Kafka's settings they take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Final

from odradek.client.topic_settings import TOPIC_SETTINGS
from odradek.foundation.machine_limits import PROCESSES_MAX
from odradek.foundation.settings.areas.protection import PROTECTION_SETTINGS, protection_setting_of
from odradek.foundation.settings.broker_settings import USED, all_settings
from odradek.foundation.settings.declaration import Scope
from odradek_operator.resources.configuration import Configuration
from odradek_operator.resources.pods import Pod, Resources, Storage
from odradek_operator.resources.schema import Quantity, Text, Whole
from odradek_operator.resources.structure import Doc, Listing, Nested, Rule

BROKERS_MAX: Final = 128
POOLS_MAX: Final = 8
_POOL_ID_MAX: Final = 9_000
_TOTAL: Final = "(self.replicas + self.pools.map(pool, pool.replicas).sum())"

# Where brokers listen, keep their logs and register follows from the resource itself.
_OWN_KEYS: Final = (
    "node.id", "broker.id", "log.dir", "log.dirs", "listeners", "advertised.listeners", "inter.broker.listener.name",
    "listener.security.protocol.map", "security.inter.broker.protocol", "controlled.shutdown.enable",
    "cordoned.log.dirs", "admin.listener.name", "broker.machine",
)  # fmt: skip
_REFUSED: Final = dict.fromkeys(_OWN_KEYS, "the operator sets it from spec.brokers and spec.listeners") | {
    "broker.processes": "set spec.brokers.processes",
    "broker.rack": "set spec.brokers.rackLabel, and each broker takes its node's zone",
    "zookeeper.connect": "set spec.zookeeper",
}
AUTHORIZER_KEYS: Final = ("authorizer.class.name", "allow.everyone.if.no.acl.found", "super.users")
# What listeners follow from the resource. Other keys of theirs promise what a Cluster does not have.
_LISTENER_KEYS: Final = (
    "ssl.client.auth", "ssl.keystore.location", "ssl.keystore.type", "ssl.truststore.location", "ssl.truststore.type",
    "sasl.enabled.mechanisms",
)  # fmt: skip
_PROTECTING: Final = dict.fromkeys(AUTHORIZER_KEYS, "set spec.authorization") | dict.fromkeys(
    _LISTENER_KEYS, "set tls and authentication of spec.internalListener and spec.listeners"
)
BROKER_SETTINGS: Final = tuple(
    setting
    for key, setting in USED.items()
    if key not in _REFUSED
    and key not in _PROTECTING
    and not key.startswith("zookeeper.")
    and not setting.internal
    # For one broker alone, and a Cluster's are for all of them.
    and setting.scope is not Scope.PER_BROKER
    # A Cluster's listeners have no TLS yet.
    and protection_setting_of(key) is None
)
# What is known by name of those that promise protection; brokers would not start with them.
_PROMISING: Final = sorted(
    key
    for key in {*all_settings(), *(row.key for row in PROTECTION_SETTINGS if not row.is_family)}
    if protection_setting_of(key) is not None
    and key not in _REFUSED
    and key not in _PROTECTING
    and not key.startswith("zookeeper.")
)
# Topics' names for settings that are called otherwise here.
_MISNAMED: Final = {
    setting.key: f"set {setting.synonyms[0]}"
    for setting in TOPIC_SETTINGS.values()
    if setting.synonyms and setting.key not in USED and not setting.internal
}
CONFIGURATION: Final = Configuration(
    BROKER_SETTINGS, refused=_MISNAMED | _REFUSED, promising=_PROMISING, protecting=_PROTECTING
)


_PROCESSES: Final = Whole(minimum=1, maximum=PROCESSES_MAX)
_PROCESSES_DOC: Final = Doc(
    "How many brokers run in each pod, as processes with a core each: give `resources` as many. To the cluster they "
    "are one machine, which never has two replicas of a partition. The number may be raised, and not lowered."
)
_PROCESSES_RULE: Final = Rule(
    "self.processes >= oldSelf.processes",
    "processes cannot be lowered: brokers with records would be gone. Make a pool with fewer, and take these away",
)


def _at_most(key: str, replicas: str, what: str) -> Rule:
    escaped = key.replace(".", "__dot__")
    return Rule(
        f"!has(self.config.{escaped}) || int(self.config.{escaped}) <= {replicas}",
        f"{key} must not be above {what}: such topics could never be made",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerPool:
    """More brokers of the same cluster, with pods and volumes of another kind."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "self.firstId == oldSelf.firstId",
            "firstId of a pool cannot change: its brokers would be others. Make another pool, and take this one away",
        ),
        Rule(
            "(has(self.storage.class) ? self.storage.class : '') == "
            "(has(oldSelf.storage.class) ? oldSelf.storage.class : '')",
            "storage.class of a pool cannot change. Make another pool with it, and take this one away: its brokers are "
            "emptied first",
        ),
        _PROCESSES_RULE,
    )

    name: Annotated[
        str,
        Text(
            pattern=r"^[a-z]([a-z0-9-]{0,13}[a-z])?$",
            min_length=1,
            max_length=15,
            what="a short DNS label that ends with a letter",
        ),
        Doc("The pool's name, and part of its pods' names."),
    ]
    first_id: Annotated[
        int,
        Whole(minimum=BROKERS_MAX, maximum=_POOL_ID_MAX),
        Doc("The number of its first broker. The 128 numbers from there on are the pool's."),
    ]
    replicas: Annotated[
        int,
        Whole(minimum=0, maximum=BROKERS_MAX),
        Doc("How many brokers. Those with its highest numbers are emptied before they go."),
    ]
    processes: Annotated[int, _PROCESSES, _PROCESSES_DOC] = 1
    storage: Annotated[Storage, Nested(Storage), Doc("Each broker's volume.")] = field(
        default_factory=Storage
    )
    resources: Annotated[Resources, Nested(Resources), Doc("Each broker's share of its node.")] = field(
        default_factory=lambda: Resources(
            requests={"cpu": "100m", "memory": "256Mi"}, limits={"memory": "2Gi"}
        )
    )
    pod: Annotated[Pod, Nested(Pod), Doc("Additions to the pool's pods, as the nodes that it is for.")] = (
        field(default_factory=Pod)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Brokers:
    """The brokers of a cluster."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            f"{_TOTAL} >= 1 && {_TOTAL} <= {BROKERS_MAX}",
            f"a Cluster has 1 to {BROKERS_MAX} brokers, those of its pools included",
        ),
        Rule(
            "self.pools.all(one, self.pools.all(other, one.name == other.name || "
            f"one.firstId + {BROKERS_MAX} <= other.firstId || other.firstId + {BROKERS_MAX} <= one.firstId))",
            f"firstId of two pools must be {BROKERS_MAX} apart at least: the numbers between are the first one's",
        ),
        Rule(
            "self.pools.all(one, oldSelf.pools.all(other, one.name == other.name || "
            f"one.firstId + {BROKERS_MAX} <= other.firstId || other.firstId + {BROKERS_MAX} <= one.firstId))",
            "a new pool cannot have numbers of one that is taken away: its brokers are still being emptied",
        ),
        Rule(
            "!has(self.config.min__dot__insync__dot__replicas) || int(self.config.min__dot__insync__dot__replicas) <= "
            f"{_TOTAL}",
            "min.insync.replicas must not be above the number of brokers: no client could write with acks=all",
        ),
        Rule(
            "!has(self.config.min__dot__insync__dot__replicas) || "
            "has(self.config.default__dot__replication__dot__factor) || "
            "int(self.config.min__dot__insync__dot__replicas) <= 3",
            "min.insync.replicas must not be above default.replication.factor, which is 3 unless it is given: set both",
        ),
        Rule(
            "!has(self.config.min__dot__insync__dot__replicas) || "
            "!has(self.config.default__dot__replication__dot__factor) || "
            "int(self.config.min__dot__insync__dot__replicas)"
            " <= int(self.config.default__dot__replication__dot__factor)",
            "min.insync.replicas must not be above default.replication.factor: no client could write with acks=all",
        ),
        _PROCESSES_RULE,
        _at_most("default.replication.factor", _TOTAL, "the number of brokers"),
        _at_most("offsets.topic.replication.factor", _TOTAL, "the number of brokers"),
        _at_most("transaction.state.log.replication.factor", _TOTAL, "the number of brokers"),
    )

    replicas: Annotated[
        int,
        Whole(minimum=0, maximum=BROKERS_MAX),
        Doc(
            "How many. More: partitions move to the new ones. Fewer: those with the highest numbers are emptied first. "
            "It may be 0 where `pools` has brokers."
        ),
    ] = 3
    processes: Annotated[int, _PROCESSES, _PROCESSES_DOC] = 1
    config: Annotated[
        Mapping[str, str],
        CONFIGURATION,
        Doc(
            "Kafka's broker settings by key. What brokers take while they run is set without a restart; anything else "
            "restarts them one by one. Without them, default.replication.factor, offsets.topic.replication.factor and "
            "transaction.state.log.replication.factor are 3, or the number of brokers where that is less. "
            "min.insync.replicas is 2, or 1 with fewer than three brokers. auto.create.topics.enable is false, since "
            "topics are declared."
        ),
    ] = field(default_factory=dict)
    storage: Annotated[Storage, Nested(Storage), Doc("Each broker's volume.")] = field(
        default_factory=Storage
    )
    resources: Annotated[Resources, Nested(Resources), Doc("Each broker's share of its node.")] = field(
        default_factory=lambda: Resources(
            requests={"cpu": "100m", "memory": "256Mi"}, limits={"memory": "2Gi"}
        )
    )
    move_rate: Annotated[
        str | None,
        Quantity(),
        Doc(
            "How many bytes a second each broker may feed or fetch for partitions that move, as 50Mi. Without it: as "
            "fast as they can."
        ),
    ] = None
    rack_label: Annotated[
        str | None,
        Text(max_length=317, min_length=1),
        Doc(
            "The label of nodes that says which zone they are in, mostly topology.kubernetes.io/zone. Replicas of a "
            "partition are put into different zones, and consumers may read from the nearest. Without it: no zones."
        ),
    ] = None
    pod: Annotated[Pod, Nested(Pod), Doc("Additions to the brokers' pods.")] = field(default_factory=Pod)
    pools: Annotated[
        tuple[BrokerPool, ...],
        Listing(Nested(BrokerPool), max_items=POOLS_MAX, keys=("name",)),
        Doc(
            "More brokers on other nodes, or with other volumes. `replicas`, `storage`, `resources` and `pod` beside "
            "it are for the brokers from number 0 on. A pool that is taken away is emptied first."
        ),
    ] = ()

    @property
    def total(self) -> int:
        """How many brokers are wanted, those of all pools included."""
        return self.replicas + sum(pool.replicas for pool in self.pools)


@dataclass(frozen=True, slots=True, kw_only=True)
class Controllers:
    """The controllers of a cluster: one is active, the others stand by."""

    replicas: Annotated[int, Whole(minimum=1, maximum=9), Doc("How many, the active one included.")] = 2
    resources: Annotated[Resources, Nested(Resources), Doc("Each controller's share of its node.")] = field(
        default_factory=lambda: Resources(
            requests={"cpu": "50m", "memory": "128Mi"}, limits={"memory": "512Mi"}
        )
    )
    pod: Annotated[Pod, Nested(Pod), Doc("Additions to the controllers' pods.")] = field(default_factory=Pod)
