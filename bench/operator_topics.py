"""How fast many new Topics become topics, and what an operator costs that has nothing to do.

A real API server (etcd and kube-apiserver without nodes), a real broker, a real operator process. The first result is
the seconds from writing the first of N Topics to the last one Ready, and the operator's CPU seconds for that. The
second, with nothing changing, is its share of a core over two resyncs and its resident memory.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import psutil

from bench.peers import storage
from bench.rounds import say
from tests.operator.support.broker_world import BrokerWithAdmin
from tests.support.broker_process import CHECKOUT, free_port
from tests.support.kubernetes_api import ApiServer, running_api_server
from tests.support.polling import SECONDS_MAX

TOPICS = 1_000
NAMESPACE = "shop"
CONVERGED_SECONDS_MAX = 600.0
RESYNC_SECONDS = 300.0


def measure_operator(
    *, disk: str | None, is_json: bool, topics: int = TOPICS, idle_seconds: float = 600.0
) -> int:
    """Print what was found."""
    with storage(disk) as folder:
        for name in ("api", "broker"):
            (folder / name).mkdir()
        with running_api_server(folder / "api") as server:
            broker = BrokerWithAdmin(folder / "broker")
            broker.start()
            try:
                found = _measure(server, broker, folder, topics=topics, idle_seconds=idle_seconds)
            finally:
                broker.close()
    print(json.dumps(found) if is_json else f"operator: {found}", flush=True)
    return 0


def _measure(
    server: ApiServer, broker: BrokerWithAdmin, folder: Path, *, topics: int, idle_seconds: float
) -> dict[str, float]:
    server.make_cluster(NAMESPACE)
    options = {
        "bootstrap": broker.bootstrap,
        "admin_port": broker.admin_port,
        "namespace": NAMESPACE,
        "http_port": free_port(),
        "resync_seconds": RESYNC_SECONDS,
    }
    environment = {
        **os.environ,
        "KUBECONFIG": str(server.kubeconfig),
        "PYTHONPATH": f"{CHECKOUT / 'broker'}:{CHECKOUT / 'operator'}:{CHECKOUT}",
    }
    with (folder / "operator.log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.operator.support.operator_process", json.dumps(options)],
            env=environment,
            stdout=log,
            stderr=log,
        )
    try:
        time.sleep(5)
        seen = psutil.Process(process.pid)
        cpu_before, began = sum(seen.cpu_times()[:2]), time.monotonic()
        server.kubectl(
            "apply", "--server-side", "--filename", "-", given="---\n".join(map(topic, range(topics)))
        )
        written = time.monotonic()
        while count_ready(server) < topics:
            if time.monotonic() - began > CONVERGED_SECONDS_MAX or process.poll() is not None:
                raise RuntimeError((folder / "operator.log").read_text()[-4000:])
            time.sleep(0.5)
        converged, cpu = time.monotonic(), sum(seen.cpu_times()[:2])
        say(f"{topics} Topics are Ready after {converged - began:.1f} s")
        time.sleep(30)
        idle_from, idle_cpu = time.monotonic(), sum(seen.cpu_times()[:2])
        time.sleep(idle_seconds)
        idle_share = (sum(seen.cpu_times()[:2]) - idle_cpu) / (time.monotonic() - idle_from)
        return {
            "topics": topics,
            "seconds_to_write_topics": round(written - began, 1),
            "seconds_to_last_ready": round(converged - began, 1),
            "operator_cpu_seconds": round(cpu - cpu_before, 1),
            "idle_share_of_a_core": round(idle_share, 4),
            "resident_megabytes": round(seen.memory_info().rss / 1e6, 1),
        }
    finally:
        process.terminate()
        process.wait(SECONDS_MAX)


def topic(number: int) -> str:
    """One Topic as YAML."""
    return (
        "apiVersion: odradek.io/v1\nkind: Topic\n"
        f"metadata: {{name: topic-{number}, namespace: {NAMESPACE}}}\n"
        "spec: {cluster: dev, partitions: 3, replicas: 1, config: {retention.ms: 60000}}\n"
    )


def count_ready(server: ApiServer) -> int:
    """The number of Topics that are Ready."""
    path = '{range .items[*]}{.status.conditions[?(@.type=="Ready")].status}{"\\n"}{end}'
    listed = server.kubectl(
        "get", "topics.odradek.io", "--namespace", NAMESPACE, "--output", f"jsonpath={path}"
    )
    return listed.split().count("True")
