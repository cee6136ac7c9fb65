"""Whether the traced program still holds an object: what weak references ask.

Only what is found from the frames and from what existed before counts. Something may hold an object that is not found
here (an iterator over it, a traceback); nothing that is found has gone. So a yes is sure, and a no is a graph break.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch

from framelift.guards.checks import is_unwatched
from framelift.values.core.base import Value
from framelift.values.core.lookup import class_lookup, defines, is_fixed, is_subclass

if TYPE_CHECKING:
    from framelift.values.core.tracer import Tracer

# Looking at so many objects takes about as long as tracing one call.
_OBJECTS_PER_CALL = 200


def is_held(tracer: Tracer, wanted: Value) -> bool:
    """Whether strong references lead to `wanted`."""
    return any(value is wanted for value in _reached(tracer))


def held(tracer: Tracer) -> set[int]:
    """The ids of all that strong references lead to."""
    return set(map(id, _reached(tracer)))


def _reached(tracer: Tracer) -> Iterator[Any]:
    seen: set[int] = set()
    pending = list(_roots(tracer))
    for value in pending:
        yield value
        if isinstance(value, Value) and value.keeps_parts and id(value) not in seen:
            seen.add(id(value))
            pending += value.parts()
            if not len(seen) % _OBJECTS_PER_CALL:
                tracer.spend(1, "looking for what is held")


def input_is_held(tracer: Tracer, wanted: Value) -> bool:
    """Whether an object that existed before is held, by whom it was or by the program."""
    source = wanted.source
    while source is not None and source.parent is not None:
        source = source.parent
    is_argument = source is None or source.access == "ARG"
    return is_held(tracer, wanted) or not (is_argument or tracer.journal.changed)


def death_shows(value: Any, watched: Sequence[Value] = ()) -> bool:
    """Whether it may matter how long a variable keeps what it holds. What was found elsewhere is kept there, too.

    `watched` is what the program has made weak references to.
    """
    if not isinstance(value, Value) or (value.source is not None and value.source.parent is not None):
        return False
    kept = [value, *value.parts()]
    return any(isinstance(part, Value) and part.death_shows for part in kept) or any(
        part is seen for part in kept for seen in watched
    )


def is_argument(value: Value) -> bool:
    """Whether an object is an argument of the frame itself."""
    return value.source is not None and value.source.access == "ARG"


def end_shows(tracer: Tracer, value: Value) -> bool:
    """Whether something runs when an object ends that existed before.

    Its `__del__`, the rest of a generator, what weak references to it call. Tensors and modules have such of torch's
    and framelift's own, and modules outlive calls of theirs.
    """
    kind = value.python_type()
    assert value.source is not None
    if not value.noted:
        tracer.guard(value.source, "TYPE", kind)
    if defines(kind, "__del__") if is_fixed(kind) else class_lookup(tracer, kind, "__del__") is not None:
        return True
    if value.concrete is None or not _has_references(kind) or any(is_subclass(kind, cls) for cls in _OF_TORCH):
        return False
    if not is_unwatched.holds(value.concrete, None):
        return True
    tracer.guard(value.source, "UNWATCHED", None)
    return False


_OF_TORCH = (torch.Tensor, torch.nn.Module)
_has_references = type.__dict__["__weakrefoffset__"].__get__


def _roots(tracer: Tracer) -> Iterator[Any]:
    frame = tracer.frame
    while frame is not None:
        yield from frame.holds()
        frame = frame.caller
    yield tracer.handled
    yield from tracer.inputs.lasting()
