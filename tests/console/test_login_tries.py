"""Pauses between tries to log in, and sessions that end, on a clock of the test."""

from __future__ import annotations

import pytest

from odradek.console.clusters import ClusterSource, ConsoleCluster
from odradek.console.login_tries import LoginTries, TooManyTriesError
from odradek.console.reading import TooManyViewersError
from odradek.console.sessions import Sessions, ViewerLogin
from odradek.foundation.console_limits import (
    CONSOLE_SESSION_IDLE_SECONDS_MAX,
    CONSOLE_SESSION_SECONDS_MAX,
    CONSOLE_SESSIONS_MAX,
    CONSOLE_SESSIONS_OF_USER_MAX,
    CONSOLE_TRIES_FORGOTTEN_SECONDS,
    CONSOLE_TRIES_OF_ADDRESS_FREE,
    CONSOLE_TRIES_OF_ADDRESS_PAUSE_SECONDS_MAX,
    CONSOLE_TRIES_OF_USER_FREE,
    CONSOLE_TRIES_OF_USER_PAUSE_SECONDS_MAX,
)
from tests.console.viewer import make_source


class Clock:
    def __init__(self) -> None:
        self.seconds = 1_000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


def refused_for(tries: LoginTries, user: str = "ann", address: str = "a") -> int:
    """The pause in seconds; 0 where a try is allowed, which is counted then."""
    try:
        tries.begin("c", user, address)
    except TooManyTriesError as failure:
        return failure.pause_seconds
    return 0


def test_failed_tries_of_a_user_make_pauses_that_double(clock: Clock) -> None:
    tries, pauses = LoginTries(clock), []
    for number in range(CONSOLE_TRIES_OF_USER_FREE):
        assert refused_for(tries, address=f"a{number}") == 0
    for _ in range(9):
        pause = refused_for(tries)
        pauses.append(pause)
        assert refused_for(tries) == pause, "a try in a pause is not counted"
        clock.seconds += pause - 0.5
        assert refused_for(tries) == 1
        clock.seconds += 0.5
        assert refused_for(tries) == 0
    assert pauses[:5] == [1, 2, 4, 8, 16] and pauses[-1] == CONSOLE_TRIES_OF_USER_PAUSE_SECONDS_MAX
    clock.seconds += CONSOLE_TRIES_FORGOTTEN_SECONDS
    assert refused_for(tries) == 0 == refused_for(tries)


def test_a_right_try_forgets_those_before_it(clock: Clock) -> None:
    tries = LoginTries(clock)
    for _ in range(3 * CONSOLE_TRIES_OF_USER_FREE):
        assert refused_for(tries) == 0
        tries.succeed("c", "ann", "a")


def test_an_address_that_tries_many_users_has_to_wait(clock: Clock) -> None:
    tries = LoginTries(clock)
    for number in range(CONSOLE_TRIES_OF_ADDRESS_FREE):
        assert refused_for(tries, user=f"user-{number}") == 0
    assert refused_for(tries, user="new") == 1 and refused_for(tries, user="new", address="b") == 0
    for number in range(10):
        clock.seconds += CONSOLE_TRIES_OF_ADDRESS_PAUSE_SECONDS_MAX
        assert refused_for(tries, user=f"later-{number}") == 0


# --- sessions --------------------------------------------------------------------------------------------------------


def login(user: str = "ann", name: str = "c", ends_at: float = float("inf")) -> ViewerLogin:
    source: ClusterSource = make_source("127.0.0.1:1", name)
    return ViewerLogin(user, ConsoleCluster(source), ends_at)


def is_closed(one: ViewerLogin) -> bool:
    return one.cluster.tasks.is_closed


async def test_a_session_ends_when_it_is_idle_and_after_a_day(clock: Clock) -> None:
    sessions, idle, used = Sessions(clock), login(), login()
    first, second = await sessions.add(None, idle), await sessions.add(None, used)
    assert first != second and len(sessions) == 2
    end = clock.seconds + CONSOLE_SESSION_SECONDS_MAX
    clock.seconds += CONSOLE_SESSION_IDLE_SECONDS_MAX - 1
    assert sessions.find_login(second, "c") is used
    clock.seconds += 1
    assert sessions.find_login(first, "c") is None and not is_closed(idle)
    await sessions.end_old()
    assert is_closed(idle) and len(sessions) == 1
    while clock.seconds < end - 60:
        assert sessions.find_login(second, "c") is used
        clock.seconds += 60
    clock.seconds = end
    assert sessions.find_login(second, "c") is None
    await sessions.end_old()
    assert is_closed(used) and len(sessions) == 0


async def test_each_login_gives_a_new_number_and_logging_out_ends_all(clock: Clock) -> None:
    sessions, one, other, again = Sessions(clock), login(), login(name="d"), login("bob")
    first = await sessions.add("chosen by somebody else", one)
    second = await sessions.add(first, other)
    assert sessions.find(first) is None and sessions.find("chosen by somebody else") is None
    assert sessions.find_login(second, "c") is one and sessions.find_login(second, "d") is other
    third = await sessions.add(second, again)
    assert sessions.find_login(third, "c") is again and is_closed(one) and len(sessions) == 1
    for wrong in (None, "", first, second, third[:-1], "\udc80"):
        assert sessions.find(wrong) is None
        await sessions.remove(wrong)
    await sessions.remove(third)
    assert is_closed(again) and is_closed(other) and sessions.find(third) is None


async def test_a_login_ends_with_its_token(clock: Clock) -> None:
    sessions, short, long = Sessions(clock), login(ends_at=clock.seconds + 60), login(name="d")
    secret = await sessions.add(await sessions.add(None, long), short)
    clock.seconds += 60
    assert sessions.find_login(secret, "c") is None and sessions.find_login(secret, "d") is long
    await sessions.end_old()
    assert is_closed(short) and not is_closed(long)


async def test_a_user_has_few_sessions_and_all_have_a_bound(clock: Clock) -> None:
    sessions, made = Sessions(clock), [login() for _ in range(CONSOLE_SESSIONS_OF_USER_MAX + 1)]
    secrets = []
    for one in made:
        clock.seconds += 1
        secrets.append(await sessions.add(None, one))
    assert is_closed(made[0]) and not is_closed(made[1]) and sessions.find(secrets[0]) is None
    assert len(sessions) == CONSOLE_SESSIONS_OF_USER_MAX
    for number in range(CONSOLE_SESSIONS_MAX - len(sessions)):
        await sessions.add(None, login(f"user-{number}"))
    with pytest.raises(TooManyViewersError):
        await sessions.add(None, login("one more"))
    assert sessions.find_login(secrets[-1], "c") is made[-1]
    await sessions.close()
    assert len(sessions) == 0 and is_closed(made[-1])
