"""Tests that await in a world which a runner makes of fixtures; `tests.support.stories` has those without any."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any


def told_with(runner: Callable[..., Any], *fixtures: str, gives: int = 1) -> Callable[[Any], Any]:
    """A test that `runner(story, …)` runs with the values of these fixtures.

    The runner gives the story its first `gives` arguments. Further ones are fixtures and parameters, as in any test.
    """

    def decorate(story: Any) -> Any:
        signature = inspect.signature(story)
        asked = list(signature.parameters.values())[gives:]
        names = {one.name for one in asked}

        @functools.wraps(story)
        def test(**given: Any) -> None:
            rest = {name: given[name] for name in names}
            runner(lambda *first: story(*first, **rest), *(given[name] for name in fixtures))

        own = [
            inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD)
            for name in fixtures
            if name not in names
        ]
        test.__signature__ = signature.replace(parameters=[*own, *asked])  # type: ignore[attr-defined]
        return test

    return decorate
