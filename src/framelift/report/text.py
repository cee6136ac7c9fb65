"""Graphs, guards, breaks and bytecode as text for humans: rich renderables, and the same as plain strings."""

from __future__ import annotations

import dis
import io
import linecache
import pathlib
import re
from collections.abc import Iterable, Sequence
from types import CodeType
from typing import Any, NamedTuple

from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from framelift.report.events import GraphBroke, GuardText, PassRan

_FILE = re.compile(r"# File: (.+?):(?=\d)")
PLAIN_WIDTH = 140  # of text that goes to a file or a pipe; a terminal has its own


def rendered(*renderables: RenderableType | Any, width: int = PLAIN_WIDTH) -> str:
    """What rich would print, as a plain string."""
    out = io.StringIO()
    console = Console(file=out, width=width, color_system=None, highlight=False)
    for renderable in renderables:
        console.print(renderable)
    return "\n".join(line.rstrip() for line in out.getvalue().rstrip().splitlines())


class EntryUse(NamedTuple):
    """How often an entry of a function ran calls, and how often a check of its graph failed, so that Python did."""

    function: str
    uses: int
    failed_checks: int

    def __str__(self) -> str:
        failed = f", its checks failed {_times(self.failed_checks)}" if self.failed_checks else ""
        return f"{self.function}: used {_times(self.uses)}{failed}"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def short_path(filename: str) -> str:
    """A path as a reader wants it: from the current folder, or from the folder that packages are installed in."""
    _, installed, rest = filename.partition("/site-packages/")
    if installed:
        return rest
    path = pathlib.Path(filename)
    if path.is_absolute() and path.is_relative_to(pathlib.Path.cwd()):
        return str(path.relative_to(pathlib.Path.cwd()))
    return filename


def user_line(filename: str, line: int) -> str:
    """The text of a line of the user's program, as far as it can be found."""
    return linecache.getline(filename, line).strip()


def bytecode_rows(code: CodeType) -> list[tuple[str, str, str]]:
    """One row per instruction: the line it belongs to (where a line starts), its name, its argument."""
    rows = []
    for instruction in dis.get_instructions(code):
        line = str(_line_start(instruction) or "")
        mark = "» " if instruction.is_jump_target else "  "
        rows.append((line, mark + instruction.opname, _argument(instruction)))
    return rows


def _line_start(instruction: Any) -> int | None:
    """`starts_line` is the line number up to 3.12 and a flag from 3.13 on."""
    if instruction.starts_line is True:
        return instruction.line_number
    return instruction.starts_line or None


def _argument(instruction: dis.Instruction) -> str:
    if isinstance(instruction.argval, CodeType):
        return f"<code {instruction.argval.co_qualname}>"  # without the address, which says nothing
    text = instruction.argrepr or ("" if instruction.arg is None else str(instruction.arg))
    return " ".join(text.split())


def bytecode_text(code: CodeType, title: str) -> Text:
    """The instructions of one code object under a title."""
    rows = bytecode_rows(code)
    lines, names = (max((len(row[part]) for row in rows), default=0) for part in (0, 1))
    text = Text(title, style="bold", no_wrap=True, overflow="ellipsis")
    for line, name, argument in rows:
        text.append(f"\n{line:>{lines}} ", style="not bold dim")
        text.append(f"{name:<{names}}", style="not bold cyan")
        text.append(f"  {argument}".rstrip(), style="not bold")
    return text


def side_by_side(original: CodeType, residual: CodeType) -> RenderableType:
    """Original and residual bytecode next to each other, and under them the functions the residual code carries."""
    both = Table.grid(expand=True, padding=(0, 3))
    both.add_column(ratio=1, no_wrap=True)
    both.add_column(ratio=1, no_wrap=True)
    both.add_row(
        bytecode_text(original, f"original {original.co_qualname}"),
        bytecode_text(residual, f"residual {residual.co_qualname}"),
    )
    known = {code.co_code for code in (original, *_inner_code(original))}
    new = [code for code in _inner_code(residual) if code.co_code not in known]
    return Group(both, *(bytecode_text(code, f"inner {code.co_qualname}") for code in new))


def _inner_code(code: CodeType) -> list[CodeType]:
    return [constant for constant in code.co_consts if isinstance(constant, CodeType)]


def python_code(text: str) -> Text:
    """Python source in colours, without the padding that rich gives a code block."""
    highlighted = Syntax("", "python", background_color="default").highlight(text.strip("\n"))
    highlighted.rstrip()
    highlighted.no_wrap, highlighted.overflow = True, "ignore"
    return highlighted


def graph_code(graph_module: Any) -> Text:
    """The graph as the Python code it stands for, each operation with its shape and the user's line above it."""
    text = graph_module.print_readable(print_output=False, include_stride=False, include_device=False)
    return python_code(_FILE.sub(lambda found: f"# File: {short_path(found[1])}:", text))


def graph_table(graph_module: Any) -> Table:
    """The graph's nodes as a table."""
    table = Table("kind", "name", "target", "arguments", box=None, padding=(0, 2), title_justify="left")
    for node in graph_module.graph.nodes:
        arguments = ", ".join([*map(str, node.args), *(f"{name}={value}" for name, value in node.kwargs.items())])
        table.add_row(node.op, node.name, escape(target_name(node.target)), escape(arguments))
    return table


def graph_sizes(graph_module: Any) -> Table:
    """The size of every tensor in the graph, as it was captured."""
    table = Table("name", "size", "dtype", box=None, padding=(0, 2))
    for node in graph_module.graph.nodes:
        value = node.meta.get("example_value")
        if hasattr(value, "dtype") and hasattr(value, "shape"):
            table.add_row(node.name, str(tuple(value.shape)), str(value.dtype))
    return table


def target_name(target: object) -> str:
    """A node's target as a user would write it: `torch.relu`, `relu`."""
    if isinstance(target, str):
        return target
    module, name = getattr(target, "__module__", None), getattr(target, "__name__", str(target))
    if module in (None, "_operator"):
        module = {"_operator": "operator"}.get(module or "", "torch" if module is None else module)
    return f"{module}.{name}" if module not in ("builtins", "") else name


def graph_ops(graph_module: Any) -> list[str]:
    """The operations of a graph, in order."""
    calls = ("call_function", "call_method", "call_module")
    return [target_name(node.target) for node in graph_module.graph.nodes if node.op in calls]


def guards_table(guards: Iterable[GuardText]) -> Table:
    """Each guard with the user's line that needed it."""
    table = Table(box=None, padding=(0, 2))
    table.add_column("guard", overflow="fold", min_width=60)
    table.add_column("needed by", no_wrap=True, max_width=90)
    for guard in guards:
        table.add_row(escape(guard.words), escape(located(guard.location)))
    return table


def located(location: Any) -> str:
    """`file.py:12  the line` for a location, empty for none."""
    if location is None:
        return ""
    return f"{short_path(location.filename)}:{location.line}  {user_line(location.filename, location.line)}".rstrip()


def pass_line(event: PassRan) -> Text:
    """What one pass did to a graph."""
    nodes = event.nodes_after - event.nodes_before
    return Text(f"{event.name}: {event.rewrites} rewrites, {nodes:+d} nodes, {event.seconds * 1e3:.1f} ms")


def breaks_table(breaks: Sequence[GraphBroke]) -> RenderableType:
    """Each break: where, why."""
    if not breaks:
        return Text("no graph breaks")
    table = Table("id", "reason", "at", box=None, padding=(0, 2))
    for event in breaks:
        line = event.text.strip() or user_line(event.filename, event.line)
        table.add_row(event.id, escape(event.reason), escape(f"{short_path(event.filename)}:{event.line}  {line}"))
    return table
