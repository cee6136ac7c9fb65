"""When a program begins another step, as CUDA graphs want to know it.

The next step may use the memory that holds the results of this one, so that recorded graphs can be replayed although
the program still has them. A graph that runs later in the same step (after a graph break) may not. Inductor asks for
the number of the step ("generation") whenever one of its graphs runs. A step is a call of a lifted callable that is not
made within another.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch._inductor.cudagraph_trees import GenerationTracker

from framelift.native import _core


@dataclass(slots=True)
class Steps:
    """Counts on when the lifted call in progress is another than when a graph last ran."""

    call: int = -1

    def run(self, compiled: Callable[..., Any], *inputs: Any) -> Any:
        call = _core.outermost_calls()
        if call != self.call:
            self.call = call
            GenerationTracker.generation += 1
        return compiled(*inputs)


# One for the process, as the generation is.
_STEPS = Steps()


def counting_steps(compiled: Callable[..., Any]) -> Callable[..., Any]:
    """A compiled graph that may be recorded as a CUDA graph, so that it says when a new step has begun."""
    return functools.partial(_STEPS.run, compiled)
