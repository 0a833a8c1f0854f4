"""What is declared once is used: a metric has samples, and a setting is read or says that it has no effect.

A reference page is made from the declarations. So a metric without samples, or a setting that nothing reads, is a false
line on a page.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from odradek.foundation.settings.broker_settings import all_settings
from odradek.foundation.settings.declaration import OneOf, Setting
from tests.tidy.checkout import PRODUCT, ROOT, sources

METRICS: Final = (
    ROOT / "broker/odradek/foundation/metrics.py",
    ROOT / "broker/odradek/foundation/mirror_metrics.py",
    ROOT / "broker/odradek/foundation/telemetry_metrics.py",
    ROOT / "operator/odradek_operator/foundation/metrics.py",
)
KINDS: Final = frozenset(("counter", "gauge", "histogram"))
DECLARATIONS: Final = ROOT / "broker/odradek/foundation/settings/areas"
# Keys that the reader composes of parts, with where it does.
COMPOSED: Final = {
    # metadata/image/group_configs.py: the bounds of a group's own settings.
    "group.consumer.min.",
    "group.consumer.max.",
    "group.share.min.",
    "group.share.max.",
    # broker/groups/context.py: a group's settings, of which the broker's are the defaults.
    "group.streams.",
    # security/authentication/listener.py: the rest of the key, in the listener's name.
    "sasl.oauthbearer.",
}


def declared_metrics(path: Path) -> set[str]:
    """The names that a module gives to metrics."""
    return {
        target.id
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)
        if isinstance(node.value.func, ast.Name) and node.value.func.id.lstrip("_") in KINDS
        for target in node.targets
        if isinstance(target, ast.Name)
    }


@cache
def _parsed(path: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


def names_read(path: Path) -> Iterator[str]:
    """The names that a module reads, alone or as an attribute."""
    for node in _parsed(path):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr


def texts_of(path: Path) -> Iterator[str]:
    """The texts of a module, which may be keys of settings."""
    return (
        node.value for node in _parsed(path) if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


@pytest.mark.thorough
def test_every_metric_has_samples() -> None:
    read = {name for path in sources(*PRODUCT) for name in names_read(path)}
    declared = {name for path in METRICS for name in declared_metrics(path)}
    assert len(declared) > 100
    assert declared - read == set(), "metrics that are declared and never sampled"


def test_a_metric_that_nothing_samples_is_found(tmp_path: Path) -> None:
    module = tmp_path / "metrics.py"
    module.write_text('A = _counter("a")\nB = gauge("b")\nC = other("c")\nA.sample(1)\n')
    assert declared_metrics(module) - set(names_read(module)) == {"B"}


def has_no_effect(setting: Setting) -> bool:
    """Whether a setting says that nothing reads it, or has one value alone."""
    words = ("no effect", "not needed", "is the same here")
    is_fixed = isinstance(setting.allowed, OneOf) and len(setting.allowed.words) == 1
    return is_fixed or any(word in setting.doc for word in words)


@pytest.mark.thorough
def test_every_setting_is_read_or_has_no_effect() -> None:
    files = [path for path in sources(*PRODUCT) if not path.is_relative_to(DECLARATIONS)]
    read = {name for path in files for name in names_read(path)}
    texts = {text for path in files for text in texts_of(path)}
    unread = [
        setting.key
        for setting in all_settings().values()
        if setting.used and setting.key.replace(".", "_") not in read
        if setting.key not in texts and not setting.key.startswith(tuple(COMPOSED))
        if not has_no_effect(setting)
    ]
    assert unread == [], "settings that nothing reads; their meaning has to say that they have no effect"
