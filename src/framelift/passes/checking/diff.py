"""What a pass changed, for people: graphs as lines of text, their difference, and a page with both side by side."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass

import jinja2
import torch
from torch.fx import Graph, Node

from framelift.passes.facts import value
from framelift.report.text import target_name


@dataclass(frozen=True, slots=True)
class Line:
    """One node: what it is, and where in the user's program it comes from."""

    text: str
    origin: str = ""


def lines(graph: Graph) -> list[Line]:
    """A graph as lines such as `add = operator.add(x, 1) -> float32[2, 3]`."""
    return [Line(_text(node), str(node.meta.get("stack_trace") or "").strip()) for node in graph.nodes]


def _text(node: Node) -> str:
    given = [str(each) for each in node.args] + [f"{name}={each}" for name, each in node.kwargs.items()]
    if node.op == "placeholder":
        return f"{node.name}: input{_shown(node)}"
    if node.op == "output":
        return f"return {', '.join(given)}"
    dot = "." if node.op == "call_method" else ""
    return f"{node.name} = {dot}{target_name(node.target)}({', '.join(given)}){_shown(node)}"


def _shown(node: Node) -> str:
    found = value(node)
    if not isinstance(found, torch.Tensor):
        return ""
    return f" -> {str(found.dtype).removeprefix('torch.')}{list(found.shape)}"


def text_diff(before: list[Line], after: list[Line], name: str) -> str:
    """The unified difference."""
    old, new = ([line.text for line in each] for each in (before, after))
    return "\n".join(difflib.unified_diff(old, new, f"before {name}", f"after {name}", lineterm="", n=2))


def _rows(before: list[Line], after: list[Line]) -> Iterator[tuple[str, Line | None, Line | None]]:
    matcher = difflib.SequenceMatcher(None, [line.text for line in before], [line.text for line in after], False)
    for kind, low, high, first, last in matcher.get_opcodes():
        left, right = before[low:high], after[first:last]
        for index in range(max(len(left), len(right))):
            one = left[index] if index < len(left) else None
            other = right[index] if index < len(right) else None
            yield kind, one, other


_PAGE = jinja2.Environment(autoescape=True).from_string(
    """<!doctype html><html lang="en"><meta charset="utf-8"><title>{{ name }}</title>
<style>
body { font: 14px system-ui, sans-serif; margin: 2em } table { border-collapse: collapse; width: 100% }
td { font: 12px ui-monospace, monospace; white-space: pre-wrap; vertical-align: top; width: 50%; padding: 1px 6px }
.equal { color: #777 } .old { background: #fdd } .new { background: #dfd }
</style>
<h1>{{ name }}</h1><p>{{ before|length }} nodes before, {{ after|length }} after. Hover over a line for its origin.</p>
<table>{% for kind, one, other in rows %}
<tr class="{{ 'equal' if kind == 'equal' }}">
{% for side, line in (("old", one), ("new", other)) %}
<td class="{{ side if line and kind != 'equal' }}" title="{{ line.origin if line }}">{{ line.text if line }}</td>
{% endfor %}</tr>{% endfor %}
</table></html>
"""
)


def html_diff(before: list[Line], after: list[Line], name: str) -> str:
    """A page of its own with both graphs side by side."""
    return _PAGE.render(name=name, before=before, after=after, rows=list(_rows(before, after)))
