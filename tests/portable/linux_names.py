"""The names that the standard library has on Linux and lacks on macOS, from the stubs that mypy brings (typeshed).

`python -m tests.portable.linux_names` writes them to hidden/linux_names.txt, where every Python of a portable run reads
them. Some are of newer Pythons than the one that runs.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

HIDDEN: Final = Path(__file__).parent / "hidden"
LISTED: Final = HIDDEN / "linux_names.txt"

_MODULES: Final = {
    "errno": "errno.pyi",
    "fcntl": "fcntl.pyi",
    "mmap": "mmap.pyi",
    "os": "os/__init__.pyi",
    "resource": "resource.pyi",
    "select": "select.pyi",
    "signal": "signal.pyi",
    "socket": "socket.pyi",
    "time": "time.pyi",
}
_VERSIONS: Final = ((3, 11), (3, 12), (3, 13), (3, 14))


def linux_names() -> list[str]:
    """`module.name` of each, sorted. Raises ImportError where mypy is not installed."""
    import mypy

    stubs = Path(mypy.__file__).parent / "typeshed" / "stdlib"
    return sorted(
        f"{module}.{name}"
        for module, stub in _MODULES.items()
        for name in _only_linux(ast.parse((stubs / stub).read_text(encoding="utf-8")))
    )


def _only_linux(stub: ast.Module) -> set[str]:
    found: set[str] = set()
    for version in _VERSIONS:
        found |= set(_declared(stub.body, "linux", version)) - set(_declared(stub.body, "darwin", version))
    return found


def _declared(body: Sequence[ast.stmt], platform: str, version: tuple[int, int]) -> Iterator[str]:
    for node in body:
        match node:
            case ast.If():
                yield from _declared(
                    node.body if _holds(node.test, platform, version) else node.orelse, platform, version
                )
            case (
                ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.AnnAssign(target=ast.Name(id=name))
            ):
                yield name
            case ast.ImportFrom(names=aliases):
                yield from (alias.asname or alias.name for alias in aliases)
            case ast.Assign(targets=[ast.Name(id=name)]):
                yield name


def _holds(test: ast.expr, platform: str, version: tuple[int, int]) -> bool:
    """Whether a stub's condition holds. Raises ValueError for one of an unknown form."""
    match test:
        case ast.Compare(left=ast.Attribute(attr="platform"), ops=[operator], comparators=[name]):
            return (ast.literal_eval(name) == platform) is isinstance(operator, ast.Eq)
        case ast.Compare(left=ast.Attribute(attr="version_info"), ops=[operator], comparators=[least]):
            return (version >= ast.literal_eval(least)) is isinstance(operator, ast.GtE)
        case ast.BoolOp(op=ast.And(), values=tests):
            return all(_holds(one, platform, version) for one in tests)
        case ast.BoolOp(op=ast.Or(), values=tests):
            return any(_holds(one, platform, version) for one in tests)
        case ast.UnaryOp(op=ast.Not(), operand=one):
            return not _holds(one, platform, version)
    raise ValueError(f"a condition of a form that is not known here: {ast.unparse(test)}")


if __name__ == "__main__":
    LISTED.write_text("\n".join(linux_names()) + "\n", encoding="utf-8")
