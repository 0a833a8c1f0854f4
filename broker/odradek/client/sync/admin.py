"""The synchronous `Admin`: each of its parts has the calls of the same part in the asyncio form."""

from __future__ import annotations

from odradek.client.admin.acls import AclAdmin
from odradek.client.admin.brokers import BrokerAdmin
from odradek.client.admin.configs import ConfigAdmin
from odradek.client.admin.groups import GroupAdmin
from odradek.client.admin.logs import LogAdmin
from odradek.client.admin.queues import QueueAdmin
from odradek.client.admin.quotas import QuotaAdmin
from odradek.client.admin.reassignments import ReassignmentAdmin
from odradek.client.admin.scram import ScramAdmin
from odradek.client.admin.topics import TopicAdmin
from odradek.client.admin.transactions import TransactionAdmin
from odradek.client.sync.client import Client, blocking_client_of
from odradek.client.sync.faces import Face, blocking


class BlockingTopics(Face[TopicAdmin]):
    """Topics: list, describe, create, grow, delete."""

    list = blocking(TopicAdmin.list)
    describe = blocking(TopicAdmin.describe)
    create = blocking(TopicAdmin.create)
    create_many = blocking(TopicAdmin.create_many)
    create_partitions = blocking(TopicAdmin.create_partitions)
    delete = blocking(TopicAdmin.delete)
    delete_many = blocking(TopicAdmin.delete_many)


class BlockingConfigs(Face[ConfigAdmin]):
    """Settings of topics, brokers and groups."""

    list_names = blocking(ConfigAdmin.list_names)
    describe = blocking(ConfigAdmin.describe)
    describe_many = blocking(ConfigAdmin.describe_many)
    alter = blocking(ConfigAdmin.alter)
    alter_many = blocking(ConfigAdmin.alter_many)
    alter_all = blocking(ConfigAdmin.alter_all)
    topic_warnings = blocking(ConfigAdmin.topic_warnings)


class BlockingAcls(Face[AclAdmin]):
    """Access control lists."""

    list = blocking(AclAdmin.list)
    create = blocking(AclAdmin.create)
    delete = blocking(AclAdmin.delete)


class BlockingQuotas(Face[QuotaAdmin]):
    """Quotas of users, clients and addresses."""

    describe = blocking(QuotaAdmin.describe)
    alter = blocking(QuotaAdmin.alter)


class BlockingScram(Face[ScramAdmin]):
    """Users with passwords."""

    describe = blocking(ScramAdmin.describe)
    alter = blocking(ScramAdmin.alter)


class BlockingTransactions(Face[TransactionAdmin]):
    """Transactions: which are open, which hang, and the end of one that does."""

    list = blocking(TransactionAdmin.list)
    describe = blocking(TransactionAdmin.describe)
    open_in = blocking(TransactionAdmin.open_in)
    hanging = blocking(TransactionAdmin.hanging)
    find = blocking(TransactionAdmin.find)
    abort = blocking(TransactionAdmin.abort)


class BlockingGroups(Face[GroupAdmin]):
    """Consumer groups and their offsets."""

    list = blocking(GroupAdmin.list)
    list_by_broker = blocking(GroupAdmin.list_by_broker)
    list_of = blocking(GroupAdmin.list_of)
    describe = blocking(GroupAdmin.describe)
    offsets = blocking(GroupAdmin.offsets)
    alter_offsets = blocking(GroupAdmin.alter_offsets)
    delete_offsets = blocking(GroupAdmin.delete_offsets)
    check_changeable = blocking(GroupAdmin.check_changeable)
    delete = blocking(GroupAdmin.delete)


class BlockingQueues(Face[QueueAdmin]):
    """Share groups, and where they are."""

    list = blocking(QueueAdmin.list)
    describe = blocking(QueueAdmin.describe)
    find = blocking(QueueAdmin.find)
    offsets = blocking(QueueAdmin.offsets)
    alter_offsets = blocking(QueueAdmin.alter_offsets)
    delete_offsets = blocking(QueueAdmin.delete_offsets)


class BlockingLogs(Face[LogAdmin]):
    """Offsets by time, deletion of records, log directories, and the cluster's brokers."""

    list_offsets = blocking(LogAdmin.list_offsets)
    list_offsets_each = blocking(LogAdmin.list_offsets_each)
    offsets_at = blocking(LogAdmin.offsets_at)
    known_offsets_at = blocking(LogAdmin.known_offsets_at)
    delete_records = blocking(LogAdmin.delete_records)
    delete_records_each = blocking(LogAdmin.delete_records_each)
    describe_cluster = blocking(LogAdmin.describe_cluster)
    describe_log_dirs = blocking(LogAdmin.describe_log_dirs)
    describe_log_dirs_of = blocking(LogAdmin.describe_log_dirs_of)
    alter_replica_log_dirs = blocking(LogAdmin.alter_replica_log_dirs)
    describe_producers = blocking(LogAdmin.describe_producers)
    describe_producers_of = blocking(LogAdmin.describe_producers_of)


class BlockingReassignments(Face[ReassignmentAdmin]):
    """Moves of partitions between brokers, and their limits of speed."""

    assignment = blocking(ReassignmentAdmin.assignment)
    reassign = blocking(ReassignmentAdmin.reassign)
    cancel = blocking(ReassignmentAdmin.cancel)
    under_way = blocking(ReassignmentAdmin.under_way)
    throttle = blocking(ReassignmentAdmin.throttle)
    unthrottle = blocking(ReassignmentAdmin.unthrottle)
    elect_leaders = blocking(ReassignmentAdmin.elect_leaders)


class BlockingBrokers(Face[BrokerAdmin]):
    """Brokers: their load, and plans that move partitions off them and onto them."""

    list = blocking(BrokerAdmin.list)
    cordon = blocking(BrokerAdmin.cordon)
    uncordon = blocking(BrokerAdmin.uncordon)
    remove = blocking(BrokerAdmin.remove)
    racks = blocking(BrokerAdmin.racks)
    machines = blocking(BrokerAdmin.machines)
    plan_drain = blocking(BrokerAdmin.plan_drain)
    drain = blocking(BrokerAdmin.drain)
    drain_progress = blocking(BrokerAdmin.drain_progress)
    bytes_left = blocking(BrokerAdmin.bytes_left)
    undrain = blocking(BrokerAdmin.undrain)
    plan_spread = blocking(BrokerAdmin.plan_spread)
    measure_load = blocking(BrokerAdmin.measure_load)
    plan_balance = blocking(BrokerAdmin.plan_balance)
    find_balancing = blocking(BrokerAdmin.find_balancing)
    stop_balance = blocking(BrokerAdmin.stop_balance)
    plan_factor = blocking(BrokerAdmin.plan_factor)
    execute = blocking(BrokerAdmin.execute)
    lift_throttles = blocking(BrokerAdmin.lift_throttles)


class Admin:
    """`Admin(client).topics.create("orders", partitions=3)`, and so on; shares the client's connections and thread."""

    def __init__(self, client: Client) -> None:
        client = blocking_client_of(client, "Admin")
        engine, inner = client._engine, client._inner
        brokers = BrokerAdmin(inner)
        self.topics = BlockingTopics(engine, TopicAdmin(inner), owner=client)
        self.acls = BlockingAcls(engine, AclAdmin(inner), owner=client)
        self.configs = BlockingConfigs(engine, ConfigAdmin(inner), owner=client)
        self.groups = BlockingGroups(engine, GroupAdmin(inner), owner=client)
        self.queues = BlockingQueues(engine, QueueAdmin(inner), owner=client)
        self.logs = BlockingLogs(engine, LogAdmin(inner), owner=client)
        self.brokers = BlockingBrokers(engine, brokers, owner=client)
        self.quotas = BlockingQuotas(engine, QuotaAdmin(inner), owner=client)
        self.scram = BlockingScram(engine, ScramAdmin(inner), owner=client)
        self.transactions = BlockingTransactions(engine, TransactionAdmin(inner), owner=client)
        self.reassignments = BlockingReassignments(engine, brokers.reassignments, owner=client)
