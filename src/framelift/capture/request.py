"""What is asked of a capture: the call, the options, and what earlier captures of the function have seen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

from framelift.graph import GraphBuilder
from framelift.options import Options
from framelift.residual.segments import Fragments
from framelift.shapes.history import History, Policy, Wish


@dataclass(frozen=True, slots=True)
class Request:
    """What to capture: a call of `function` with these argument slots."""

    function: FunctionType
    slots: tuple[Any, ...]
    options: Options
    # Lifts what comes after a break, and the frames that Python's part of a function calls.
    context: Any
    fragments: Fragments = field(default_factory=Fragments)
    make_graph: Callable[[], GraphBuilder] = GraphBuilder
    # What earlier captures of the function saw: what changed since is symbolic.
    history: History = field(default_factory=History)
    # What the user said about single inputs.
    wishes: Mapping[str, Wish] = field(default_factory=dict)

    def policy(self) -> Policy:
        """Which sizes and numbers are symbolic."""
        options = self.options
        dynamic = options.dynamic if isinstance(options.dynamic, bool) else None
        return Policy(self.history, dynamic, self.wishes)
