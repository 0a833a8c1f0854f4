"""Groups of real consumers that come, go and are killed while the broker is killed too, and what must hold of them.

Everything that chance decides comes from one seed. The consumers are processes (`group_member`). A reader thread for
each turns its output into `History`: the records taken, the partitions that it believes to hold, and all commits.
`group_commits` says what must hold of them. CHURN_LOGS names a folder for what the clients' libraries log.
"""

from __future__ import annotations

import json
import os
import queue
import random
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from tests.support.broker_process import CHECKOUT
from tests.support.group_commits import Commit

SESSION_MS = 6000
# The pure Python clients heartbeat from loops that a busy machine holds up: they are never killed, and may take long.
PATIENT_SESSION_MS = 20_000
STOP_SECONDS_MAX = 60
DISOWNED_SECONDS_MAX = 2  # the answer to one heartbeat
LOGS = os.environ.get("CHURN_LOGS")


@dataclass(frozen=True, slots=True)
class Kind:
    """How a member of a group is run."""

    client: str
    protocol: str = "classic"
    strategy: str = "range"

    @property
    def may_be_killed(self) -> bool:
        return self.client == "confluent"


@dataclass(slots=True)
class History:
    """What the members of one group reported. `held` has partitions by member, and since when it holds each."""

    taken: dict[int, set[int]] = field(default_factory=dict)
    held: dict[int, dict[int, float]] = field(default_factory=dict)
    commits: dict[str, Commit] = field(default_factory=dict)
    takings: int = 0
    last_reported: dict[int, deque[str]] = field(default_factory=dict)
    modern: set[int] = field(default_factory=set)  # members with KIP-848
    first_assigned: dict[int, tuple[float, frozenset[int]]] = field(
        default_factory=dict
    )  # by member, till revoked

    def note(self, member: int, what: str, at: float, details: list[Any]) -> None:
        held = self.held.setdefault(member, {})
        if what not in ("got", "commits", "committed"):
            self.last_reported.setdefault(member, deque(maxlen=4)).append(f"{at:.2f} {what} {details}")
        if what == "got":
            for partition, first, last in details:
                self.taken.setdefault(partition, set()).update(range(first, last + 1))
                self.takings += last + 1 - first
        elif what == "assigned":
            for partition in details:
                held.setdefault(partition, at)
            if (
                member in self.modern
                and details
                and not any(commit.member == member for commit in self.commits.values())
            ):
                self.first_assigned.setdefault(member, (at, frozenset(details)))
        elif what in ("revoked", "lost"):
            self._note_disowned(member, at, frozenset(details))
            for partition in details:
                held.pop(partition, None)
        elif what == "commits":
            name, *positions = details
            self.commits[name] = Commit(name, member, at, positions=dict(positions), assigned_at=dict(held))
        elif what == "committed":
            self.commits[details[0]].acknowledged_at = at

    def _note_disowned(self, member: int, at: float, given_up: frozenset[int]) -> None:
        """Check whether a new member gives up what it had disowned before it took it.

        librdkafka with KIP-848 reports that it owns nothing while it looks up the name of its first assigned topic. It
        then takes the assignment. The broker believes the report, as Apache Kafka 4.1 does, and may have assigned the
        partitions to others. librdkafka gives those up with the next answer.
        """
        assigned_at, partitions = self.first_assigned.pop(member, (0.0, frozenset()))
        if at < assigned_at + DISOWNED_SECONDS_MAX:
            for commit in self.commits.values():
                if commit.member == member:
                    commit.disowned |= partitions & given_up

    def gone(self, member: int) -> None:
        """The member's process has ended."""
        self.held.pop(member, None)


class MemberProcess:
    """One consumer."""

    def __init__(self, number: int, group: Group, kind: Kind) -> None:
        self.number = number
        self.kind = kind
        self.was_killed = False
        options = {
            "number": number,
            "client": kind.client,
            "protocol": kind.protocol,
            "strategy": kind.strategy,
            "bootstrap": group.bootstrap,
            "group": group.name,
            "topic": group.topic,
            "session_ms": SESSION_MS if kind.may_be_killed else PATIENT_SESSION_MS,
            "log": f"{LOGS}/{group.name}-{number}.log" if LOGS else None,
        }
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "tests.support.group_member", json.dumps(options)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=CHECKOUT,
        )
        self._has_spoken = threading.Event()  # from then on it knows what SIGTERM means
        self._errors: list[str] = []
        self._threads = [
            threading.Thread(target=self._read, args=(group.events,), daemon=True),
            threading.Thread(target=self._read_errors, daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def _read(self, events: queue.SimpleQueue[tuple[int, str, float, list[Any]]]) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.endswith("\n"):
                self._has_spoken.set()
                what, at, details = json.loads(line)
                events.put((self.number, what, at, details))

    def _read_errors(self) -> None:
        assert self.process.stderr is not None
        self._errors += self.process.stderr.readlines()

    def kill(self) -> None:
        self.was_killed = True
        self.process.kill()
        self._ended()

    def stop(self) -> None:
        self._has_spoken.wait(STOP_SECONDS_MAX)
        self.process.send_signal(signal.SIGTERM)

    def await_stop(self) -> None:
        self._ended()
        assert self.was_killed or self.process.returncode == 0, (
            f"{self.kind} ended with {self.process.returncode}:\n{''.join(self._errors)[-4000:]}"
        )

    def _ended(self) -> None:
        try:
            self.process.wait(STOP_SECONDS_MAX)
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
        for thread in self._threads:
            thread.join(STOP_SECONDS_MAX)
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()


class Group:
    """One group under churn. `kinds` are the members it begins with, and those that replace them."""

    def __init__(self, name: str, *, bootstrap: str, topic: str, kinds: list[Kind]) -> None:
        self.name = name
        self.bootstrap = bootstrap
        self.topic = topic
        self.kinds = kinds
        self.history = History()
        self.events: queue.SimpleQueue[tuple[int, str, float, list[Any]]] = queue.SimpleQueue()
        self.members: dict[int, MemberProcess] = {}
        self.started = 0

    def start_member(self, kind: Kind) -> None:
        self.started += 1
        if kind.protocol == "consumer":
            self.history.modern.add(self.started)
        self.members[self.started] = MemberProcess(self.started, self, kind)

    def churn(self, chance: random.Random) -> str:
        """Let one member come, leave or die; what it was."""
        number = chance.choice(sorted(self.members)) if self.members else 0
        action = chance.choice(("start", "stop", "kill")) if len(self.members) > 2 else "start"
        if action == "start" and len(self.members) >= len(self.kinds):
            action = "stop"
        if action == "start":
            missing = list(self.kinds)
            for member in self.members.values():
                missing.remove(member.kind)
            kind = chance.choice(missing)
            self.start_member(kind)
            return f"{self.name}: {kind.client} ({kind.protocol}) comes as {self.started}"
        member = self.members.pop(number)
        if action == "kill" and member.kind.may_be_killed:
            member.kill()
        else:
            action = "stop"
            member.stop()
            member.await_stop()
        self.take_notes()
        self.history.gone(number)
        return f"{self.name}: {number} ({member.kind.client}, {member.kind.protocol}) {action}"

    def take_notes(self, *, seconds: float = 0.0) -> None:
        """Read what members have reported, and what they report within `seconds` from now."""
        deadline = time.monotonic() + seconds
        while True:
            left = deadline - time.monotonic()
            try:
                event = self.events.get(timeout=left) if left > 0 else self.events.get_nowait()
            except queue.Empty:
                return
            self.history.note(*event)

    def check_alive(self) -> None:
        """Raises AssertionError with the output of a member that has ended by itself."""
        for member in self.members.values():
            if member.process.poll() is not None:
                member.await_stop()
                raise AssertionError(f"{member.kind} of the group {self.name} ended by itself")

    def describe(self) -> str:
        """What members hold and reported last."""
        taken = {partition: len(offsets) for partition, offsets in sorted(self.history.taken.items())}
        lines = [f"group {self.name} has taken of each partition {taken}:"]
        for number, member in self.members.items():
            held = sorted(self.history.held.get(number, ()))
            reported = "; ".join(self.history.last_reported.get(number, ()))
            lines.append(
                f"  {number} {member.kind.client} {member.kind.protocol} holds {held}, reported {reported}"
            )
        return "\n".join(lines)

    def holdings(self) -> list[list[int]]:
        """The partitions that each living member holds."""
        return [sorted(self.history.held.get(number, ())) for number in self.members]

    def stop(self) -> None:
        """Let all members go at once."""
        for member in self.members.values():
            member.stop()
        for number, member in self.members.items():
            member.await_stop()
            self.take_notes()
            self.history.gone(number)
        self.members.clear()

    def close(self) -> None:
        """For a test that failed: nothing is left running."""
        for member in self.members.values():
            member.kill()
        self.members.clear()
