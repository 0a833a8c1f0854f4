"""Consumer groups under churn beside the faults of the cluster: members are processes, and a thread takes notes."""

from __future__ import annotations

import contextlib
import queue
import random
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from typing import Final

from tests.chaos.history import GroupReported, HistoryFile, now
from tests.support.group_churn import Group, Kind, MemberProcess
from tests.support.polling import SECONDS_MAX

NOTE_SECONDS: Final = 0.1
LEAVE_SECONDS_MAX: Final = 20.0
COMMIT_SECONDS_MAX: Final = 10.0
REQUEST_SECONDS_MAX: Final = 60.0  # librdkafka's default of socket.timeout.ms
REPLACED_MAX: Final = 4  # members of one group: more is not the client's fault

CLASSIC: Final = Kind("confluent")
COOPERATIVE: Final = Kind("confluent", strategy="cooperative-sticky")
MODERN: Final = Kind("confluent", protocol="consumer")


class RecordedGroup(Group):
    """A group whose members' words go to the history file, too."""

    def __init__(
        self, name: str, *, bootstrap: str, topic: str, kinds: list[Kind], history: HistoryFile
    ) -> None:
        super().__init__(name, bootstrap=bootstrap, topic=topic, kinds=kinds)
        self._file = history
        self._reported_gone: set[int] = set()
        self._last_words: dict[int, tuple[str, float]] = {}
        self._leaving: dict[int, tuple[MemberProcess, float]] = {}
        self.replaced = 0

    def take_notes(self, *, seconds: float = 0.0) -> None:
        """As a group does; nothing waits here."""
        while True:
            try:
                member, what, at, details = self.events.get_nowait()
            except queue.Empty:
                return
            self.history.note(member, what, at, details)
            self._last_words[member] = (what, at)
            self._add(member, what, at, details)

    def _add(self, member: int, what: str, at: float, details: list[object]) -> None:
        protocol = "consumer" if member in self.history.modern else "classic"
        self._file.add(
            GroupReported(
                at=at, group=self.name, member=member, protocol=protocol, what=what, details=details
            )
        )

    def churn_one(self, chance: random.Random) -> None:
        """Let one member join, leave or die. Unlike `churn` it does not wait: leaving may take long during faults."""
        action = chance.choice(("start", "stop", "kill"))
        missing = self.missing()
        if missing and (action == "start" or not self.members):
            self.start_member(chance.choice(missing))
        elif self.members:
            number = chance.choice(sorted(self.members))
            member = self.members.pop(number)
            if action == "kill":
                member.kill()
            else:
                member.stop()
                self._leaving[number] = (member, time.monotonic() + LEAVE_SECONDS_MAX)

    def missing(self) -> list[Kind]:
        missing = list(self.kinds)
        for member in self.members.values():
            missing.remove(member.kind)
        return missing

    def look_after_leaving(self) -> None:
        """Kill members that were stopped and do not end, because no broker answers them."""
        for number, (member, deadline) in list(self._leaving.items()):
            if member.process.poll() is not None:
                member.await_stop()
            elif time.monotonic() > deadline:
                member.kill()
            else:
                continue
            del self._leaving[number]

    def replace_lost_in_a_commit(self) -> None:
        """Kill members whose client never ends a commit, and start others; see `_lost_in_a_commit`.

        A request without an answer fails after the client's `socket.timeout.ms`: what lasts longer is not the broker's.
        """
        for number in self._lost_in_a_commit(REQUEST_SECONDS_MAX + COMMIT_SECONDS_MAX):
            member = self.members.pop(number)
            member.kill()
            if self.replaced < REPLACED_MAX:
                self.replaced += 1
                self.start_member(member.kind)

    def leave(self) -> str:
        """Stop all members; returns those that did not end after everything was healed."""
        failed = []
        for number in self._lost_in_a_commit(COMMIT_SECONDS_MAX):
            self.members.pop(number).kill()
        for member in self.members.values():
            member.stop()
        for number, member in list(self.members.items()):
            try:
                member.await_stop()
            except (AssertionError, subprocess.TimeoutExpired) as failure:
                failed.append(f"member {number} of {self.name}: {failure}"[:1000])
            self.take_notes()
        self.members.clear()
        for member, _ in self._leaving.values():
            member.kill()
        self._leaving.clear()
        self.take_notes()
        self.note_gone()
        return "; ".join(failed)

    def _lost_in_a_commit(self, seconds: float) -> list[int]:
        """Members of librdkafka that wait for a commit which its coordinator took with it.

        That can be for ever (confluentinc/librdkafka 3740, confluent-kafka-python 1801). Its thread still sends
        heartbeats, so the group waits for such a member, too. Probes check whether brokers answer commits.
        """
        before = now() - seconds
        words = {number: self._last_words.get(number, ("", now())) for number in self.members}
        return [number for number, (what, at) in words.items() if what == "commits" and at < before]

    def describe(self) -> str:
        """What members hold, what they reported last, and the last word of each, commits included."""
        words = (f"{number} {what} at {at:.2f}" for number, (what, at) in sorted(self._last_words.items()))
        return (
            f"{super().describe()}\n  last words: {', '.join(words)}; {self.replaced} members were replaced"
        )

    def close(self) -> None:
        for member, _ in self._leaving.values():
            member.kill()
        self._leaving.clear()
        super().close()

    def note_gone(self) -> None:
        """Record members that have ended in the history."""
        for number in range(1, self.started + 1):
            is_there = number in self.members or number in self._leaving
            if not is_there and number not in self._reported_gone:
                self._reported_gone.add(number)
                self._add(number, "gone", now(), [])


class Groups:
    """All groups of one round. A thread of its own takes notes and does what is asked, in order."""

    def __init__(
        self, kinds: Mapping[str, list[Kind]], *, bootstrap: str, topic: str, history: HistoryFile
    ) -> None:
        self.groups = [
            RecordedGroup(name, bootstrap=bootstrap, topic=topic, kinds=members, history=history)
            for name, members in kinds.items()
        ]
        self._asked: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._is_finishing = threading.Event()
        self._is_over = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="groups", daemon=True)

    def start(self) -> None:
        for group in self.groups:
            for kind in group.kinds:
                group.start_member(kind)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._is_over.wait(NOTE_SECONDS):
                with contextlib.suppress(queue.Empty):
                    self._asked.get_nowait()()
                for group in self.groups:
                    group.look_after_leaving()
                    if self._is_finishing.is_set():
                        group.replace_lost_in_a_commit()
                    group.take_notes()
                    group.note_gone()
                    group.check_alive()
        except BaseException as failure:
            self._failure = failure

    def raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def churn(self, choice: int) -> str:
        group = self.groups[choice % len(self.groups)]
        chance = random.Random(choice)
        self._asked.put(lambda: group.churn_one(chance))
        return f"churn in the group {group.name}"

    def pause(self, choice: int) -> tuple[str, Callable[[], None]]:
        group = self.groups[choice % len(self.groups)]
        members = list(group.members.items())
        if not members:
            return f"no member is left in the group {group.name}", lambda: None
        number, member = members[choice % len(members)]
        member.process.send_signal(signal.SIGSTOP)
        return (
            f"SIGSTOP of member {number} of the group {group.name}",
            lambda: member.process.send_signal(signal.SIGCONT),
        )

    def fill_up(self) -> None:
        """Start the members that have left."""

        def start_missing() -> None:
            for group in self.groups:
                for kind in group.missing():
                    group.start_member(kind)

        self._asked.put(start_missing)

    def at_rest(self, ends: Mapping[int, int], *, seconds_max: float) -> str:
        """Wait until every group has committed everything; what is missing when it has not in time."""
        deadline = time.monotonic() + seconds_max
        self._is_finishing.set()
        while True:
            self.raise_failure()
            behind = [group for group in self.groups if not _has_committed(group, ends)]
            if not behind:
                return ""
            if time.monotonic() > deadline:
                return "\n".join(f"{group.describe()}\n  the ends are {dict(ends)}" for group in behind)
            time.sleep(NOTE_SECONDS)

    def stop(self) -> str:
        """Let all members leave, and note their last reports; returns those that did not leave."""
        self._end_thread()
        self.raise_failure()
        return "; ".join(error for group in self.groups if (error := group.leave()))

    def close(self) -> None:
        """For a round that failed: nothing is left running."""
        self._end_thread()
        for group in self.groups:
            group.close()

    def _end_thread(self) -> None:
        self._is_over.set()
        if self._thread.ident is not None:
            self._thread.join(SECONDS_MAX)


def _has_committed(group: Group, ends: Mapping[int, int]) -> bool:
    reached: dict[int, int] = {}
    for commit in list(group.history.commits.values()):
        if commit.acknowledged_at < float("inf"):
            for partition, position in commit.positions.items():
                reached[partition] = max(reached.get(partition, 0), position)
    return all(reached.get(partition, 0) >= end for partition, end in ends.items() if end)
