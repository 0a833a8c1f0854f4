"""Sessions of viewers that logged in: a random number for the browser, and its logins in this process.

Only the hash of a number is kept, so that a dump of the table opens no session. A session ends when it was not used for
a while, after a working day, by logging out, and when its last login ends. Each is closed with its clients.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from odradek.console.clusters import ConsoleCluster
from odradek.console.reading import TooManyViewersError
from odradek.foundation.console_limits import (
    CONSOLE_SESSION_IDLE_SECONDS_MAX,
    CONSOLE_SESSION_SECONDS_MAX,
    CONSOLE_SESSION_SWEEP_SECONDS,
    CONSOLE_SESSIONS_MAX,
    CONSOLE_SESSIONS_OF_USER_MAX,
)
from odradek.foundation.tasks import TaskOwner

_SECRET_BYTES = 32


@dataclass(frozen=True, slots=True)
class ViewerLogin:
    """A user at one cluster. `ends_at` is when its token ends."""

    user: str
    cluster: ConsoleCluster
    ends_at: float = float("inf")


@dataclass(slots=True)
class ViewerSession:
    """One browser: its logins by the names of clusters."""

    begun_at: float
    used_at: float
    logins: dict[str, ViewerLogin] = field(default_factory=dict)

    def has_ended(self, now: float) -> bool:
        """Whether it was not used for too long, or is too old."""
        return (
            now - self.used_at >= CONSOLE_SESSION_IDLE_SECONDS_MAX
            or now - self.begun_at >= CONSOLE_SESSION_SECONDS_MAX
        )


class Sessions:
    """All sessions of a console. `now` is in seconds, and never goes back."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._sessions: dict[bytes, ViewerSession] = {}
        self._tasks = TaskOwner("console sessions")

    def start(self) -> None:
        """Begin to end sessions when it is time."""
        self._tasks.start(self._sweep(), name="end old ones")

    def find(self, secret: str | None) -> ViewerSession | None:
        """The session of a number, which is used so; None where there is none, or none any more."""
        found = self._sessions.get(_hash(secret)) if secret else None
        now = self._now()
        if found is None or found.has_ended(now):
            return None
        found.used_at = now
        return found

    def find_login(self, secret: str | None, cluster: str) -> ViewerLogin | None:
        """The login of a session at a cluster; None where there is none, or none any more."""
        session = self.find(secret)
        login = None if session is None else session.logins.get(cluster)
        return None if login is None or login.ends_at <= self._now() else login

    async def add(self, secret: str | None, login: ViewerLogin) -> str:
        """Add a login to the session of `secret`, or begin one. Returns its new number: the old one is worth nothing.

        Raises TooManyViewersError where no more sessions are kept.
        """
        await self.end_old()
        now, name = self._now(), login.cluster.name
        session = self._sessions.pop(_hash(secret), None) if secret else None
        if session is None:
            await self._make_room(name, login.user)
            session = ViewerSession(begun_at=now, used_at=now)
        former = session.logins.get(name)
        session.logins[name] = login
        new_secret = secrets.token_urlsafe(_SECRET_BYTES)
        self._sessions[_hash(new_secret)] = session
        if former is not None:
            await former.cluster.close()
        return new_secret

    async def remove(self, secret: str | None) -> None:
        """End a session: the viewer logs out."""
        session = self._sessions.pop(_hash(secret), None) if secret else None
        if session is not None:
            await _close_all(session.logins.values())

    async def end_old(self) -> None:
        """End all sessions and logins whose time is over."""
        now = self._now()
        ended: list[ViewerLogin] = []
        for key, session in list(self._sessions.items()):
            over = [
                name for name, one in session.logins.items() if session.has_ended(now) or one.ends_at <= now
            ]
            ended += [session.logins.pop(name) for name in over]
            if not session.logins:
                del self._sessions[key]
        await _close_all(ended)

    async def close(self) -> None:
        """End all sessions."""
        await self._tasks.close()
        sessions, self._sessions = self._sessions, {}
        await _close_all(login for session in sessions.values() for login in session.logins.values())

    def __len__(self) -> int:
        return len(self._sessions)

    async def _make_room(self, cluster: str, user: str) -> None:
        """End the session of this user that was not used for longest, where there are enough of them."""
        own = [
            (session.used_at, key)
            for key, session in self._sessions.items()
            if (login := session.logins.get(cluster)) is not None and login.user == user
        ]
        if len(own) >= CONSOLE_SESSIONS_OF_USER_MAX:
            session = self._sessions.pop(min(own)[1])
            await _close_all(session.logins.values())
        elif len(self._sessions) >= CONSOLE_SESSIONS_MAX:
            raise TooManyViewersError(
                f"{CONSOLE_SESSIONS_MAX} viewers are logged in, and no more can be; try again later"
            )

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(CONSOLE_SESSION_SWEEP_SECONDS)
            await self.end_old()


async def _close_all(logins: Iterable[ViewerLogin]) -> None:
    for login in logins:
        await login.cluster.close()


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode(errors="backslashreplace")).digest()
