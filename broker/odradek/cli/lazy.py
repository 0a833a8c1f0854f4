"""A click group whose verbs are imported when they are called: `odradek topics` does not pay for `odradek perf`."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
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
