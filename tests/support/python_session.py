"""A Python session for pages: blocks share their names, and `await` works at the top level, as in `python -m asyncio`.

One JSON object a line on stdin, `{"name": "docs/page.md:12", "code": "…"}`, one answer a line on stdout,
`{"output": "…", "failure": null or a traceback}`. The event loop runs between blocks, too. Ends with stdin.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import io
import json
import linecache
import sys
import traceback
from typing import Any


async def _answer(namespace: dict[str, Any], name: str, code: str) -> dict[str, str | None]:
    linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)
    output = io.StringIO()
    failure = None
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        try:
            compiled = compile(code, name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            result = eval(compiled, namespace)
            if inspect.iscoroutine(result):
                await result
        except Exception:
            failure = traceback.format_exc()
    return {"output": output.getvalue(), "failure": failure}


async def _main() -> None:
    namespace: dict[str, Any] = {"__name__": "__main__"}
    while line := await asyncio.to_thread(sys.stdin.readline):
        answer = await _answer(namespace, **json.loads(line))
        sys.__stdout__.write(json.dumps(answer) + "\n")  # type: ignore[union-attr]
        sys.__stdout__.flush()  # type: ignore[union-attr]


if __name__ == "__main__":
    asyncio.run(_main())
