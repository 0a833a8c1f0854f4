"""A broker process that takes metrics of clients, and what /metrics has of them."""

from __future__ import annotations

import subprocess
import sys
import urllib.request
from collections.abc import Mapping
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from tests.support.broker_process import CHECKOUT, Broker, free_port

# As short as Kafka allows it: a client pushes within one and a half of them.
INTERVAL_MS = 500
SAMPLES = ("odradek_client_metric", "odradek_client_counter_total")


class TelemetryBroker(Broker):
    """It asks every client for all metrics."""

    def __init__(self, folder: Path) -> None:
        self.admin_port = free_port()
        super().__init__(
            folder,
            settings={"client.telemetry.enable": "true", "group.initial.rebalance.delay.ms": "0"},
            arguments=["--admin", f"127.0.0.1:{self.admin_port}"],
        )

    def start(self) -> float:
        seconds = super().start()
        command = [sys.executable, "-m", "odradek", "configs", "set", "client-metrics", "all"]
        command += ["--bootstrap", self.bootstrap, "metrics=*", f"interval.ms={INTERVAL_MS}"]
        subprocess.run(command, check=True, cwd=CHECKOUT, capture_output=True, timeout=60)
        return seconds

    def pushed(self, client_id: str) -> Mapping[str, float]:
        """The largest value of each metric that the client has pushed, gauges and counters."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.admin_port}/metrics", timeout=10) as answer:
            text = answer.read().decode()
        found: dict[str, float] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                labels = sample.labels
                if sample.name in SAMPLES and labels.get("client_id") == client_id:
                    name = labels["metric"]
                    found[name] = max(found.get(name, sample.value), sample.value)
        return found
