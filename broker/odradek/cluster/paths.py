"""The paths of the registry, which are Kafka's ZooKeeper paths.

A node holds the JSON or text beside its path:

    /cluster/id                                {"version":"1","id":CLUSTER_ID}
    /brokers/ids/N             ephemeral       {"version":5,"endpoints":[…],"listener_security_protocol_map":{…},
                                                "rack":…,"epoch":E,"host":…,"port":…,"timestamp":…}
    /brokers/seqid                             its version numbers the broker epochs
    /brokers/seen                              {"version":1,"epochs":{"1":7}}: the registrations that elections followed
    /brokers/topics/T                          {"version":3,"topic_id":BASE64,"partitions":{"0":[1]},…}
    /brokers/topics/T/partitions/P/state       {"version":1,"leader":1,"leader_epoch":0,"isr":[1],"controller_epoch":1}
    /controller                ephemeral       {"version":1,"brokerid":1,"timestamp":…}
    /controller_epoch                          the epoch as text
    /config/topics/T, /config/brokers/N, …     {"version":1,"config":{KEY:TEXT}}
    /admin/delete_topics/T                     empty; the topic is being deleted
    /feature                                   {"version":1,"epoch":1,"features":{"transaction.version":2}}
    /latest_producer_id_block                  {"version":1,"broker":1,"block_start":"0","block_end":"999"}
"""

from __future__ import annotations

import re
from typing import Final

from odradek.registry.node_tree import UNFIT_CHARACTERS

CLUSTER_ID: Final = "/cluster/id"
BROKER_IDS: Final = "/brokers/ids"
BROKER_EPOCHS: Final = "/brokers/seqid"
SEEN_BROKERS: Final = "/brokers/seen"
TOPICS: Final = "/brokers/topics"
CONTROLLER: Final = "/controller"
CONTROLLER_EPOCH: Final = "/controller_epoch"
CONFIG: Final = "/config"
DELETE_TOPICS: Final = "/admin/delete_topics"
FEATURES: Final = "/feature"
PRODUCER_ID_BLOCK: Final = "/latest_producer_id_block"

_ESCAPED: Final = re.compile(f"[%/{UNFIT_CHARACTERS}]")
_PERCENTS: Final = re.compile("(?:%[0-9A-F]{2})+")

DEFAULT_BROKER: Final = "<default>"

# Persistent nodes that exist from the first start, parents first.
SKELETON: Final = (
    "/cluster",
    "/brokers",
    BROKER_IDS,
    BROKER_EPOCHS,
    TOPICS,
    CONFIG,
    "/config/topics",
    "/config/brokers",
    "/config/groups",
    "/config/client-metrics",
    "/config/users",
    "/config/clients",
    "/config/changes",
    "/admin",
    DELETE_TOPICS,
)


def broker(broker_id: int) -> str:
    return f"{BROKER_IDS}/{broker_id}"


def topic(name: str) -> str:
    return f"{TOPICS}/{name}"


def topic_partitions(name: str) -> str:
    return f"{TOPICS}/{name}/partitions"


def partition(name: str, number: int) -> str:
    return f"{TOPICS}/{name}/partitions/{number}"


def partition_state(name: str, number: int) -> str:
    return f"{TOPICS}/{name}/partitions/{number}/state"


def config(kind: str, name: str) -> str:
    """The node of one resource's settings; `kind` is topics, brokers, groups or client-metrics."""
    return f"{CONFIG}/{kind}/{escape(name)}"


def escape(name: str) -> str:
    """A name that is escaped for one step of a path: groups may have any name, with slashes and dots."""
    if name in (".", ".."):
        return name.replace(".", "%2E")
    return _ESCAPED.sub(_percent, name)


def unescape(step: str) -> str:
    return _PERCENTS.sub(_characters, step)


def _percent(match: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in match[0].encode(errors="surrogatepass"))


def _characters(match: re.Match[str]) -> str:
    return bytes.fromhex(match[0].replace("%", "")).decode(errors="surrogatepass")


def deletion(name: str) -> str:
    return f"{DELETE_TOPICS}/{name}"
