"""Errors that are kept as values: the outcome of one element among many."""

from __future__ import annotations

from typing import TypeVar

Error = TypeVar("Error", bound=Exception)


def without_trace(error: Error) -> Error:
    """The error, to be kept as a value. A trace holds what each function had that it passed through.
    With the collection that the error is kept in, both would wait for a search for garbage.
    """
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)
