"""The paths of the registry, which are Kafka's ZooKeeper paths.

A node holds the JSON or text beside its path:

    /cluster/id                                {"version":"1","id":CLUSTER_ID}
    /cluster/login_secret                      {"version":1,"secret":BASE64}: `unknown_users` has it
    /brokers/ids/N             ephemeral       {"version":5,"endpoints":[…],"listener_security_protocol_map":{…},
                                                "rack":…,"epoch":E,"host":…,"port":…,"timestamp":…}
    /brokers/seqid                             its version numbers the broker epochs
    /brokers/seen                              {"version":1,"epochs":{"1":7}}: the registrations that elections followed
    /brokers/registrations/N                   as /brokers/ids/N was last: a broker that is away is known by it
    /brokers/topics/T                          {"version":3,"topic_id":BASE64,"partitions":{"0":[1]},…}
    /brokers/topics/T/partitions/P/state       {"version":1,"leader":1,"leader_epoch":0,"isr":[1],"controller_epoch":1}
    /controller                ephemeral       {"version":1,"brokerid":1,"timestamp":…}
    /controller_epoch                          the epoch as text
    /config/topics/T, /config/brokers/N, …     {"version":1,"config":{KEY:TEXT}}
    /config/users/U, /config/users/U/clients/C, /config/clients/C, /config/ips/A
                                               the same: quotas, and a user's SCRAM credentials
    /admin/delete_topics/T                     empty; the topic is being deleted
    /feature                                   {"version":1,"epoch":1,"features":{"transaction.version":2}}
    /latest_producer_id_block                  {"version":1,"broker":1,"block_start":"0","block_end":"999"}
    /kafka-acl, /kafka-acl-extended            ACLs, see `acl_nodes`
    /delegation_token/tokens/ID                delegation tokens, see `token_nodes`
    /consumers                                 groups that share partitions here, written by their consumers alone
"""

from __future__ import annotations

import re
from typing import Final

from odradek.foundation.client_entities import DEFAULT, ClientEntity
from odradek.metadata.registry.node_tree import UNFIT_CHARACTERS

CLUSTER_ID: Final = "/cluster/id"
LOGIN_SECRET: Final = "/cluster/login_secret"
BROKER_IDS: Final = "/brokers/ids"
BROKER_EPOCHS: Final = "/brokers/seqid"
SEEN_BROKERS: Final = "/brokers/seen"
REGISTRATIONS: Final = "/brokers/registrations"
TOPICS: Final = "/brokers/topics"
CONTROLLER: Final = "/controller"
CONTROLLER_EPOCH: Final = "/controller_epoch"
CONFIG: Final = "/config"
DELETE_TOPICS: Final = "/admin/delete_topics"
FEATURES: Final = "/feature"
PRODUCER_ID_BLOCK: Final = "/latest_producer_id_block"
ACLS: Final = "/kafka-acl"
EXTENDED_ACLS: Final = "/kafka-acl-extended"
TOKENS: Final = "/delegation_token/tokens"
CONSUMERS: Final = "/consumers"

_ESCAPED: Final = re.compile(f"[%/{UNFIT_CHARACTERS}]")
_PERCENTS: Final = re.compile("(?:%[0-9A-F]{2})+")

DEFAULT_BROKER: Final = "<default>"

USERS: Final = "/config/users"
CLIENTS: Final = "/config/clients"
IPS: Final = "/config/ips"
# A user with this name is escaped, so it is another node.
_DEFAULT_CLIENT: Final = "<default>"
# Kafka's Sanitizer: what a URL's query may hold unescaped.
_UNSANITARY: Final = re.compile(r"[^A-Za-z0-9._-]+")

# Persistent nodes that exist from the first start, parents first.
SKELETON: Final = (
    "/cluster",
    "/brokers",
    BROKER_IDS,
    BROKER_EPOCHS,
    REGISTRATIONS,
    TOPICS,
    CONFIG,
    "/config/topics",
    "/config/brokers",
    "/config/groups",
    "/config/client-metrics",
    USERS,
    CLIENTS,
    IPS,
    "/config/changes",
    "/admin",
    DELETE_TOPICS,
    # There before the first rule or token: a client that creates their parents could write rules of its own.
    ACLS,
    EXTENDED_ACLS,
    f"{EXTENDED_ACLS}/prefixed",
    "/delegation_token",
    TOKENS,
    # The only place for clients. They could not make it where the nodes above belong to the brokers' user.
    CONSUMERS,
)

# The parents of what decides on rights: a client that may write there may do everything.
PARENTS_OF_RIGHTS: Final = (
    ACLS,
    EXTENDED_ACLS,
    f"{EXTENDED_ACLS}/prefixed",
    CONFIG,
    USERS,
    "/delegation_token",
    TOKENS,
)

# All nodes of the cluster are there or below, and those that decide on rights come first.
BRANCHES: Final = (
    ACLS,
    EXTENDED_ACLS,
    "/delegation_token",
    CONFIG,
    "/cluster",
    CONTROLLER,
    CONTROLLER_EPOCH,
    FEATURES,
    PRODUCER_ID_BLOCK,
    "/admin",
    "/brokers",
)


def broker(broker_id: int) -> str:
    return f"{BROKER_IDS}/{broker_id}"


def registration(broker_id: int) -> str:
    """The node that outlives the broker's session."""
    return f"{REGISTRATIONS}/{broker_id}"


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


def client_config(entity: ClientEntity) -> str:
    """The node of a user's, a client id's or an address's configs."""
    user, client_id, ip = entity
    if ip is not None:
        return f"{IPS}/{_client_step(ip)}"
    if user is None:
        return f"{CLIENTS}/{_client_step(client_id or DEFAULT)}"
    path = f"{USERS}/{_client_step(user)}"
    return path if client_id is None else f"{path}/clients/{_client_step(client_id)}"


def client_entity(path: str) -> ClientEntity | None:
    """The inverse of `client_config`; None for another node."""
    match path.removeprefix(CONFIG + "/").split("/"):
        case ["users", user]:
            return ClientEntity(user=_client_name(user))
        case ["users", user, "clients", client_id]:
            return ClientEntity(user=_client_name(user), client_id=_client_name(client_id))
        case ["clients", client_id]:
            return ClientEntity(client_id=_client_name(client_id))
        case ["ips", ip]:
            return ClientEntity(ip=_client_name(ip))
    return None


def _client_step(name: str) -> str:
    if name == DEFAULT:
        return _DEFAULT_CLIENT
    if name in (".", ".."):
        return name.replace(".", "%2E")
    return _UNSANITARY.sub(_percent, name)


def _client_name(step: str) -> str:
    return DEFAULT if step == _DEFAULT_CLIENT else unescape(step)


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
