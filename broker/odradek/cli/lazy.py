"""The doors of the command line: a verb is declared in one module, and runs in another, loaded when it is called.

`odradek topics` does not pay for `odradek perf`, and the help of a verb does not pay for a client.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping
from typing import Any

import click

from odradek.foundation.verb_groups import VerbGroup


class LazyGroup(VerbGroup):
    """Knows each verb as `module:attribute` and imports it when it is used."""

    def __init__(self, *args: Any, verbs: Mapping[str, str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._verbs = dict(verbs)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._verbs)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        place = self._verbs.get(cmd_name)
        if place is None:
            return None
        module_name, attribute = place.split(":")
        command = getattr(importlib.import_module(module_name), attribute)
        assert isinstance(command, click.Command), place
        return command


def run_in(module_name: str) -> Callable[[Callable[[], None]], Callable[..., object]]:
    """Makes a declaration, which has the options and the help of a verb, a verb: the function of the same name in
    this module does it.
    """

    def decorate(declaration: Callable[[], None]) -> Callable[..., object]:
        @functools.wraps(declaration)
        def call(*arguments: object, **options: object) -> object:
            run = getattr(importlib.import_module(module_name), declaration.__name__)
            return run(*arguments, **options)

        return call

    return decorate
