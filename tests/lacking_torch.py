"""Which names of torch's framelift's sources use, and what happens where a torch is without one of them."""

from __future__ import annotations

import ast
import importlib
import os
import sys
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

SOURCES = sorted((Path(__file__).resolve().parent.parent / "src").rglob("*.py"))


class Use(NamedTuple):
    """`torch.a._b`: where it is read, whether by an import statement, and whether when the module is loaded."""

    name: str
    place: str
    imported: bool
    loading: bool


def private_uses() -> list[Use]:
    """All uses of names of torch's that have a private part."""
    return [use for path in SOURCES for use in _Reader(path).uses if "._" in use.name.replace(".__", ".")]


class _Reader(ast.NodeVisitor):
    def __init__(self, path: Path) -> None:
        self.path = path
        self.uses: list[Use] = []
        self._known: dict[str, str] = {}  # what the module's own names stand for
        self._loading = True
        self.visit(ast.parse(path.read_text()))

    def _note(self, name: str, node: ast.AST, imported: bool) -> None:
        place = f"{self.path.parent.name}/{self.path.name}:{getattr(node, 'lineno', 0)}"
        self.uses.append(Use(name, place, imported, self._loading))

    def visit_If(self, node: ast.If) -> None:
        if "TYPE_CHECKING" not in ast.unparse(node.test):
            self.generic_visit(node)

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            if alias.name.partition(".")[0] == "torch":
                self._known[alias.asname or "torch"] = alias.name if alias.asname else "torch"

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if str(node.module).partition(".")[0] == "torch":
            for alias in node.names:
                name = self._known[alias.asname or alias.name] = f"{node.module}.{alias.name}"
                self._note(name, node, imported=True)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        for outside in (*node.decorator_list, *node.args.defaults, *filter(None, node.args.kw_defaults)):
            self.visit(outside)
        self._visit_later(node.body)

    visit_AsyncFunctionDef = visit_FunctionDef  # type: ignore[assignment]

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._visit_later([node.body])

    def _visit_later(self, body: Any) -> None:
        before, self._loading = self._loading, False
        for node in body:
            self.visit(node)
        self._loading = before

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        parts: list[str] = []
        base: ast.AST = node
        while isinstance(base, ast.Attribute):
            parts.append(base.attr)
            base = base.value
        if isinstance(base, ast.Name) and base.id in self._known:
            self._note(".".join([self._known[base.id], *reversed(parts)]), node, imported=False)
        else:
            self.visit(base)


# -- a torch without some of them ------------------------------------------------------------------------------------


def program(x: Any, w: Any) -> Any:
    import torch

    y = torch.relu(x @ w)
    with torch.no_grad():
        z = y.sum()
    return y * z + x.shape[0]


def remove(path: str) -> bool:
    """Take a name out of torch; False where it cannot be, or is not there."""
    module, _, name = path.rpartition(".")
    try:
        owner: Any = sys.modules[module]
        delattr(owner, name)
    except (KeyError, AttributeError, TypeError):
        return False
    sys.modules.pop(path, None)
    return not hasattr(owner, name)


def outcome_without(*paths: str) -> str:
    """What becomes of framelift in a process whose torch is without these names, in words."""
    if not any([remove(path) for path in paths]):
        return "nothing was removed"
    try:
        return _outcome()
    except Exception as error:
        innermost = traceback.extract_tb(error.__traceback__)[-1].filename
        if innermost.startswith(os.path.dirname(sys.modules["torch"].__file__)):
            return "torch does not work"
        raise


def _outcome() -> str:
    import torch

    arguments = torch.ones(2, 2), torch.ones(2, 2, requires_grad=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            expected = program(*arguments)
        except Exception as error:
            expected = error  # torch itself needs it
        framelift = importlib.import_module("framelift")
        lifted = framelift.compile(program, backend="eager")
        if isinstance(expected, Exception):
            return "torch does not work"
        for _ in range(2):
            torch.testing.assert_close(lifted(*arguments), expected)
    told = [str(warning.message) for warning in caught if warning.category.__name__ == "FrameliftWarning"]
    if framelift.counters().captured:
        return "captured"
    # One tells what is missing, and one perhaps that this function needs it.
    return "told" if 1 <= len(told) <= 2 else f"{len(told)} warnings: {told}"


def outcomes(groups: list[list[str]]) -> Iterator[str]:
    """The outcome for each group of names, each in a process of its own that has torch, but not yet framelift."""
    import torch  # noqa: F401

    for module in sorted({use.name.rpartition(".")[0] for use in private_uses()}):
        try:
            importlib.import_module(module)
        except ImportError:
            pass
    assert "framelift" not in sys.modules
    for group in groups:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            try:
                answer = outcome_without(*group)
            except BaseException as error:
                answer = f"{type(error).__name__}: {error}"
            os.write(writer, answer.encode()[:2000])
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as stream:
            yield stream.read() or "the process died"
        os.waitpid(child, 0)


if __name__ == "__main__":
    given = [line.split() for line in sys.stdin.read().splitlines()]
    for answer in outcomes(given):
        print(answer.replace("\n", " "), flush=True)
