"""The login of pods to the Cluster's ZooKeeper, where that admits clients.

    NAME-zookeeper-login   password, super-password, login.properties (brokers, controllers), servers.cfg (servers)

Only one file of the Secret is mounted into each pod.
"""

from __future__ import annotations

from typing import Final

from odradek_operator.desired.names import ZOOKEEPER, ZOOKEEPER_PORT, Context, Json
from odradek_operator.desired.security import encode_files, secret_volume
from odradek_operator.foundation.zookeeper_login import BROKERS_FILE, SERVERS_FILE, ZookeeperLogin
from odradek_operator.resources.cluster import ClusterSpec

LOGIN_SUFFIX: Final = "zookeeper-login"
LOGIN_VOLUME: Final = "zookeeper-login"
LOGIN_FOLDER: Final = "/etc/odradek-zookeeper"
# On pods: which login a broker or controller shows, or a server checks access lists with.
ACCESS_ANNOTATION: Final = "odradek.io/zookeeper-access"


def checks_access(spec: ClusterSpec) -> bool:
    """Whether the ZooKeeper that is run for a Cluster has to check access lists."""
    servers = spec.zookeeper.servers
    return servers is not None and servers.clients is not None


def client_connect(context: Context) -> dict[str, str]:
    """What clients of ZooKeeper are given, by Kafka's key; empty where none are admitted."""
    servers = context.spec.zookeeper.servers
    if servers is None or not servers.clients:
        return {}
    return {"zookeeper.connect": context.zookeeper_connect}


def login_secret(context: Context, login: ZookeeperLogin) -> Json:
    return context.manifest(
        "v1",
        "Secret",
        context.object_name(LOGIN_SUFFIX),
        ZOOKEEPER,
        type="Opaque",
        data=encode_files(login.files()),
    )


def broker_login_volumes(context: Context) -> list[Json]:
    """The volume with the login of a broker or controller, where it has one."""
    return _volumes(context, BROKERS_FILE) if context.zookeeper_access.logs_in else []


def server_login_volumes(context: Context) -> list[Json]:
    """The volume by which a server knows the operator, where servers check access lists."""
    return _volumes(context, SERVERS_FILE) if context.zookeeper_access.is_checked else []


def login_mounts(context: Context, *, is_server: bool = False) -> dict[str, str]:
    """The folder of that volume, by its name."""
    access = context.zookeeper_access
    return {LOGIN_VOLUME: LOGIN_FOLDER} if (access.is_checked if is_server else access.logs_in) else {}


def access_annotations(context: Context, *, is_server: bool = False) -> dict[str, str]:
    """A pod whose login is another one is replaced by it."""
    return (
        {ACCESS_ANNOTATION: context.zookeeper_access.login}
        if login_mounts(context, is_server=is_server)
        else {}
    )


def client_rules(context: Context) -> list[Json]:
    """The rules of ZooKeeper's NetworkPolicy that admit clients, once it is protected from them."""
    servers = context.spec.zookeeper.servers
    if servers is None or not servers.clients or not context.zookeeper_access.admits_clients:
        return []
    return [{"ports": [{"protocol": "TCP", "port": ZOOKEEPER_PORT}], "from": list(servers.clients)}]


def _volumes(context: Context, file: str) -> list[Json]:
    volume = secret_volume(LOGIN_VOLUME, context.object_name(LOGIN_SUFFIX))
    return [{**volume, "secret": {**volume["secret"], "items": [{"key": file, "path": file}]}}]
