"""No file of tests is skipped as a whole, for what a package brings that only the long suite has.

Another file that imports it could not be read then, and tests of it that need no such package would not run either.
"""

from __future__ import annotations

import ast

from tests.tidy.checkout import named, sources


def test_no_file_is_skipped_as_a_whole() -> None:
    found = [
        named(path, statement.lineno)
        for path in sources("tests")
        if "importorskip" in (text := path.read_text())
        for statement in ast.parse(text).body
        if isinstance(statement, ast.Expr | ast.Assign) and "importorskip" in ast.unparse(statement)
    ]
    assert found == []
