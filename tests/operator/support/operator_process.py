"""The operator in a process of its own, with brokers at a given address: `python -m
tests.operator.support.operator_process`.

All is as `odradek-operator run` has it, but for where the brokers of any Cluster are: outside Kubernetes their Service
has no name. Only Topics and ConsumerGroups are reconciled. It reads one JSON object from its arguments: bootstrap,
admin_port, namespace, http_port, resync_seconds.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping
from typing import Any

from odradek.foundation import event_loop
from odradek_operator.foundation.settings import OperatorSettings
from odradek_operator.gateways.api_server import ApiServerGateway
from odradek_operator.gateways.brokers import BrokerClients
from odradek_operator.gateways.kubernetes import CONSUMER_GROUPS, TOPICS
from odradek_operator.gateways.record_times import RecordTimes
from odradek_operator.main.access import configure, log_in
from odradek_operator.main.cli import set_up_logging
from odradek_operator.main.process import Operator
from odradek_operator.reconcilers.consumer_group.run import group_kind
from odradek_operator.reconcilers.reconciler import Environment, Reconciler
from odradek_operator.reconcilers.rounds import make_reconciler
from odradek_operator.reconcilers.topic.run import TOPIC_KIND


async def run(options: Mapping[str, Any]) -> None:
    brokers = BrokerClients()
    record_times = RecordTimes(lambda _: f"127.0.0.1:{options['admin_port']}")

    def reconcilers(environment: Environment) -> Mapping[str, Reconciler]:
        return {
            TOPICS.kind: make_reconciler(
                environment, TOPIC_KIND, brokers=brokers, bootstrap=lambda _: options["bootstrap"]
            ),
            CONSUMER_GROUPS.kind: make_reconciler(
                environment,
                group_kind(record_times),
                brokers=brokers,
                bootstrap=lambda _: options["bootstrap"],
            ),
        }

    settings = OperatorSettings(
        namespaces=(options["namespace"],),
        home=options["namespace"],
        http_host="127.0.0.1",
        http_port=options["http_port"],
        resync_seconds=options["resync_seconds"],
    )
    async with ApiServerGateway(configure) as kubernetes:
        operator = Operator(settings, kubernetes, reconcilers=reconcilers, login=log_in)
        try:
            await operator.run(asyncio.Event())
        finally:
            await record_times.close()
            await brokers.close()


if __name__ == "__main__":
    set_up_logging("warning", "text")
    event_loop.run(run(json.loads(sys.argv[1])))
