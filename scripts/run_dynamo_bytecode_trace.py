"""Print the original and the residual bytecode of lifted code side by side, and the FX graphs.

    python scripts/run_dynamo_bytecode_trace.py package.module:function --args "torch.randn(3)" "2"
    python scripts/run_dynamo_bytecode_trace.py module:function --backend eager
    python scripts/run_dynamo_bytecode_trace.py program.py

With module:function the arguments come from --args, or from a function `example_inputs()` of the module. With a file,
the file is run as a program, and every framelift.compile and torch.compile call in it is lifted and traced.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import pathlib
import runpy
import sys
from typing import Any

import torch
from rich.console import Console
from rich.text import Text

import framelift
from framelift import api
from framelift.errors import unknown
from framelift.report import stream
from framelift.report.events import (
    CaptureStarted,
    Event,
    GraphBroke,
    GraphCaptured,
    GuardsBuilt,
    InternalFailure,
    RanEagerly,
    Recompiled,
    ResidualBuilt,
)
from framelift.report.text import breaks_table, graph_code, guards_table, short_path, side_by_side


class Usage(Exception):
    """The command line asks for something that is not there."""


class Printer:
    """Prints the events of a trace as they come."""

    def __init__(self, console: Console, guards: bool) -> None:
        self.console = console
        self.guards = guards

    def __call__(self, event: Event) -> None:
        if isinstance(event, CaptureStarted):
            self.console.rule(f"[bold]{event.function}[/] ({short_path(event.filename)}:{event.line})")
        elif isinstance(event, Recompiled):
            self.console.print(Text("captured again: " + "; ".join(event.reasons), style="yellow"))
        elif isinstance(event, GraphBroke):
            self._headed("graph break", breaks_table([event]))
        elif isinstance(event, GraphCaptured):
            self._headed(f"FX graph ({event.ops} ops)", graph_code(event.graph_module))
        elif isinstance(event, GuardsBuilt) and self.guards:
            self._headed("guards", guards_table(event.guards))
        elif isinstance(event, ResidualBuilt):
            self._headed("bytecode", side_by_side(event.original, event.residual))
        elif isinstance(event, InternalFailure):
            self._headed(f"internal failure {event.id}", Text(event.error))
        elif isinstance(event, RanEagerly):
            self.console.print(Text(f"{event.function} ran in Python: {event.reason}", style="yellow"))

    def _headed(self, head: str, body: Any) -> None:
        self.console.print(Text(f"\n{head}", style="bold cyan"))
        self.console.print(body)


def find_function(name: str) -> tuple[Any, Any]:
    """The module and the callable that "package.module:function" names."""
    module_name, _, path = name.partition(":")
    sys.path.insert(0, str(pathlib.Path.cwd()))
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise Usage(f"cannot import {module_name!r}: {error}") from None
    found: Any = module
    for part in path.split("."):
        if not hasattr(found, part):
            raise Usage(unknown(f"name in {module_name}", part, [name for name in vars(found) if name[0] != "_"]))
        found = getattr(found, part)
    if not callable(found):
        raise Usage(f"{name} is {found!r}, which cannot be called")
    return module, found


def find_arguments(module: Any, expressions: list[str] | None, name: str) -> tuple[Any, ...]:
    """The arguments to call the function with: from the command line, or from the module's example_inputs()."""
    if expressions is not None:
        return tuple(eval(text, {**vars(module), "torch": torch}) for text in expressions)
    if not hasattr(module, "example_inputs"):
        raise Usage(f'no arguments for {name}: give --args "torch.randn(3)", or define example_inputs() in its module')
    inputs = module.example_inputs()
    return inputs if isinstance(inputs, tuple) else (inputs,)


def trace_function(name: str, backend: str | None, expressions: list[str] | None) -> None:
    module, function = find_function(name)
    arguments = find_arguments(module, expressions, name)
    framelift.compile(function, backend=backend or "eager")(*arguments)


def trace_file(path: str, backend: str | None, arguments: list[str]) -> None:
    """Run a program in which every compile() is framelift's, with the chosen backend if one was chosen."""
    original = framelift.compile
    known = ("fullgraph", "dynamic", "backend", "mode", "options", "disable")

    @functools.wraps(original)
    def compile(model: Any = None, **options: Any) -> Any:
        chosen = {name: value for name, value in options.items() if name in known}
        return original(model, **(chosen | ({"backend": backend} if backend else {})))

    torch.compile = framelift.compile = api.compile = compile  # type: ignore[assignment]
    sys.argv = [path, *arguments]
    runpy.run_path(path, run_name="__main__")


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("target", help="module:function, or a Python file")
    made.add_argument("--backend", help="the backend to use (default: eager, or what the file itself asks for)")
    made.add_argument("--args", nargs="*", metavar="EXPR", help="arguments, as Python expressions or the file's own")
    made.add_argument("--guards", action="store_true", help="print the guards too")
    return made


def main(arguments: list[str]) -> int:
    given = parser().parse_args(arguments)
    console = Console(width=None if sys.stdout.isatty() else 150, highlight=False)
    try:
        if given.backend is not None:
            api.make_lifting(backend=given.backend)
        with stream.listening(Printer(console, given.guards)):
            if ":" in given.target:
                trace_function(given.target, given.backend, given.args)
            elif pathlib.Path(given.target).is_file():
                trace_file(given.target, given.backend, given.args or [])
            else:
                raise Usage(f"{given.target!r} is neither module:function nor a file")
    except (Usage, ValueError) as error:
        print(f"{pathlib.Path(sys.argv[0]).name}: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
