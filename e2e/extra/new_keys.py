"""New keys of a Cluster's authorities: where they are, how a step ends early, and a program that writes all the time.

A step lasts a quarter of an hour at least, so that the kubelet and the operator bring the new trust to all in time. A
test asks for that itself: it wakes both, and looks that all have it. Then it sets the begin of the step back.
"""

from __future__ import annotations

import base64
import json
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial

from e2e.kube import Kube, until
from odradek.foundation.settings.file import parse_properties

AUTHORITIES = ("cluster-ca", "clients-ca")
STEP_SECONDS_MAX = 90.0
# Brokers look at their files twice a second, and end connections that rest on a retired authority within a second.
TAKEN_SECONDS = 3.0
_STEPS = ("following.crt", "former.crt")
_BROKERS_FILES = "/etc/odradek-tls/broker"

# A program of a team. It reads its Secret again when that changes, as a program that is started again does.
_WRITES = """\
import asyncio, json, pathlib, select, sys, time
from odradek import Client, Producer, errors
from odradek.client.secured import secured_network
from odradek.foundation.settings.file import parse_properties

topic, prefix = sys.argv[1:]
file = pathlib.Path("/etc/user/client.properties")
report = {"sent": 0, "acknowledged": [], "failed": [], "connections": 0, "slowest_seconds": 0.0}

def has_ended():
    return bool(select.select([sys.stdin], [], [], 0)[0])

def client(text):
    report["connections"] += 1
    properties = parse_properties(text)
    return Client(properties["bootstrap.servers"], network=secured_network(properties))

async def write(text):
    checked_at = time.monotonic()
    async with client(text) as connected, Producer(connected) as producer:
        while not has_ended() and file.read_text() == text:
            value, began = f"{prefix}-{report['sent']}", time.monotonic()
            report["sent"] += 1
            try:
                written = await (await producer.send(topic, value.encode()))
            except errors.OdradekError as error:
                report["failed"].append(f"{value}: {error!r}")
            else:
                report["acknowledged"].append([written.partition, written.offset, value])
            report["slowest_seconds"] = max(report["slowest_seconds"], time.monotonic() - began)
            if began - checked_at > 2:
                # A program that starts now.
                checked_at = began
                async with client(file.read_text()):
                    pass
            await asyncio.sleep(0.02)

async def main():
    print("begun", flush=True)
    while not has_ended():
        try:
            await write(file.read_text())
        except errors.OdradekError as error:
            report["failed"].append(f"a connection: {error!r}")
    print(json.dumps(report))

asyncio.run(main())
"""

# It connects by the properties of standard input, asks for the topics, and says how that went.
_CONNECTS = """\
import asyncio, json, sys
from odradek import Client, errors
from odradek.client.secured import secured_network

async def main():
    properties = json.load(sys.stdin)
    try:
        async with Client(properties["bootstrap.servers"], network=secured_network(properties)) as client:
            await client.refresh(None)
    except errors.ConnectionFailed as error:
        print("refused:", error)
    else:
        print("served")

asyncio.run(main())
"""


@dataclass(slots=True)
class Written:
    """What a program says of its records when it ends."""

    sent: int = 0
    acknowledged: list[tuple[int, int, str]] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    connections: int = 0
    slowest_seconds: float = 0.0

    def check(self, kept: set[tuple[int, int, str]]) -> None:
        """No record failed, and all that were acknowledged are where the broker said."""
        assert not self.failed, f"{len(self.failed)} of {self.sent}: {self.failed[:5]}"
        assert len(self.acknowledged) == self.sent > 10
        lost = [one for one in self.acknowledged if one not in kept]
        assert not lost, f"{len(lost)} of {self.sent} acknowledged records are not there: {lost[:5]}"


@contextmanager
def writing(kube: Kube, user: str, topic: str) -> Iterator[Written]:
    """A program in the pod of a user writes all the time; its report is there after the block."""
    written, began = Written(), time.monotonic()
    process = kube.beside(user, "python", "-c", _WRITES, topic, f"{user}-{uuid.uuid4().hex[:6]}")
    try:
        assert process.stdout is not None and process.stdout.readline() == "begun\n", process.communicate()
        yield written
    except BaseException:
        process.kill()
        process.communicate()
        raise
    said, errors = process.communicate(timeout=150)  # closes its input
    assert process.returncode == 0, errors[-2000:]
    for name, value in json.loads(said.splitlines()[-1]).items():
        setattr(written, name, [tuple(one) for one in value] if name == "acknowledged" else value)
    print(
        f"{user}: {written.sent} records in {time.monotonic() - began:.0f} s, {written.connections} connections, "
        f"the slowest record {written.slowest_seconds:.2f} s, {len(written.failed)} failed"
    )


def answer_to(kube: Kube, pod: str, properties: dict[str, str]) -> str:
    """How brokers answer a client of these properties: `served`, or `refused: …`."""
    return kube.inside(pod, "python", "-c", _CONNECTS, stdin=json.dumps(properties)).strip()


def properties_of(kube: Kube, user: str) -> dict[str, str]:
    """What the Secret of a User says now."""
    return parse_properties(files(kube, user)["client.properties"])


def files(kube: Kube, secret: str) -> dict[str, str]:
    """A Secret's text files, by name; empty without it."""
    data = (kube.get("secret", secret) or {}).get("data", {})
    return {name: base64.b64decode(text).decode(errors="replace") for name, text in data.items()}


def trusted(kube: Kube, cluster: str, authority: str) -> str:
    """The certificates that an authority's Secret says are to be trusted, that of the signing key first."""
    found = files(kube, f"{cluster}-{authority}")
    return found.get("tls.crt", "") + found.get("following.crt", "") + found.get("former.crt", "")


def _authority_of(kube: Kube, user: str) -> str | None:
    return files(kube, user).get("ca.crt")


def _await(read: Callable[[], str | None], wanted: str, where: str) -> None:
    what = f"{where} has the authorities of this step"
    until(read, lambda found: found == wanted, seconds_max=STEP_SECONDS_MAX, what=what)


def await_step(kube: Kube, cluster: str, step: str | None, users: Sequence[str]) -> None:
    """Wait until all know a step: `following.crt` is announced, `former.crt` is used, None is retired.

    They are the authorities, the Secrets of users and their pods, and the pods of brokers and controllers.
    """
    there = [] if step is None else [step]
    until(
        lambda: [sorted({*_STEPS} & files(kube, f"{cluster}-{one}").keys()) for one in AUTHORITIES],
        lambda found: found == [there, there],
        seconds_max=STEP_SECONDS_MAX,
        what=f"both authorities are at the step {step}",
    )
    brokers, clients = (trusted(kube, cluster, one) for one in AUTHORITIES)
    pods = [one["metadata"]["name"] for one in kube.items("pods", f"odradek.io/cluster={cluster}")]
    servers = [one for one in pods if "-broker-" in one or "-controller-" in one]
    wake(kube, "user.odradek.io", *users)
    for user in users:
        _await(partial(_authority_of, kube, user), brokers, f"the Secret of {user}")
    wake(kube, "pod", *users, *servers)
    for user in users:
        _await(partial(kube.inside, user, "cat", "/etc/user/ca.crt"), brokers, f"the pod of {user}")
    for name, wanted in (("cluster-ca.crt", brokers), ("clients-ca.crt", clients)):
        for pod in servers:
            _await(partial(kube.inside, pod, "cat", f"{_BROKERS_FILES}/{name}"), wanted, pod)
    time.sleep(TAKEN_SECONDS)


def end_step(kube: Kube, cluster: str) -> None:
    """Say that the present step began long ago, and wake the operator."""
    since = (datetime.now(UTC) - timedelta(hours=1)).isoformat().encode()
    for one in AUTHORITIES:
        kube.patch("secret", f"{cluster}-{one}", {"data": {"since": base64.b64encode(since).decode()}})
    wake(kube, "cluster.odradek.io", cluster)


def wake(kube: Kube, kind: str, *names: str) -> None:
    """Change resources so that their watcher looks at them now."""
    kube.run("annotate", kind, *names, f"e2e.odradek.io/woken={uuid.uuid4().hex}", "--overwrite")
