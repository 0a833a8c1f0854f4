"""The admin client: one object with the calls for topics, configs, ACLs, groups, logs and brokers."""

from __future__ import annotations

from odradek.client.admin.acls import AclAdmin
from odradek.client.admin.brokers import BrokerAdmin
from odradek.client.admin.configs import ConfigAdmin
from odradek.client.admin.groups import GroupAdmin
from odradek.client.admin.logs import LogAdmin
from odradek.client.admin.queues import QueueAdmin
from odradek.client.admin.quotas import QuotaAdmin
from odradek.client.admin.scram import ScramAdmin
from odradek.client.admin.topics import TopicAdmin
from odradek.client.admin.transactions import TransactionAdmin
from odradek.client.client import Client, client_of


class Admin:
    """`Admin(client).topics.create("orders", partitions=3)`, and so on; shares the client's connections."""

    def __init__(self, client: Client) -> None:
        client = client_of(client, "Admin")
        self.topics = TopicAdmin(client)
        self.acls = AclAdmin(client)
        self.configs = ConfigAdmin(client)
        self.groups = GroupAdmin(client)
        self.queues = QueueAdmin(client)
        self.logs = LogAdmin(client)
        self.brokers = BrokerAdmin(client)
        self.quotas = QuotaAdmin(client)
        self.scram = ScramAdmin(client)
        self.transactions = TransactionAdmin(client)
        self.reassignments = self.brokers.reassignments
