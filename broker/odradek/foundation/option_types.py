"""Numbers as options of a command line by click. Errors and help say in words which ones can be given.

Click calls them an "integer range", and writes `1<=x<=30`.
"""

from __future__ import annotations

import math

import click


class WholeNumber(click.IntRange):
    """A whole number within bounds, which belong to it. Without bounds it is any whole number."""

    name = "whole number"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return int(super().convert(value, param, ctx))  # type: ignore[arg-type]
        except click.BadParameter:
            self.fail(f"{str(value)!r} is not a whole number{_describe_bounds(self)}.", param, ctx)

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        return "N"

    def _describe_range(self) -> str:
        return _name_bounds(self)


class AnyNumber(click.FloatRange):
    """A number within bounds, with a decimal point or without; never an infinite one."""

    name = "number"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            number = float(super().convert(value, param, ctx))  # type: ignore[arg-type]
        except click.BadParameter:
            number = math.nan
        if not math.isfinite(number):
            self.fail(f"{str(value)!r} is not a number{_describe_bounds(self)}.", param, ctx)
        return number

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        return "N"

    def _describe_range(self) -> str:
        return _name_bounds(self)


def _describe_bounds(number: click.IntRange | click.FloatRange) -> str:
    """What follows "a number" in a sentence: " from 1 to 30", or nothing."""
    words = _name_bounds(number)
    if not words:
        return ""
    has_both = number.min is not None and number.max is not None
    return f" {'from' if has_both else 'of'} {words}"


def _name_bounds(number: click.IntRange | click.FloatRange) -> str:
    low, high = number.min, number.max
    if low is None and high is None:
        return ""
    if low is None:
        return f"{_write(high)} or less"
    if high is None:
        return f"more than {_write(low)}" if number.min_open else f"{_write(low)} or more"
    return f"{_write(low)} to {_write(high)}"


def _write(bound: float | None) -> str:
    assert bound is not None
    return str(int(bound)) if bound == int(bound) else str(bound)
