"""Which inputs are the same object, and which share memory: guarded where the capture rests on it."""

from __future__ import annotations

from collections.abc import Iterable

from framelift.capture.lift import Lift
from framelift.guards.source import Source
from framelift.native import _core
from framelift.values.core.base import KnownObject, Value
from framelift.values.tensors.tensors import TensorValue


def guard_aliasing(lift: Lift) -> None:
    """Tensors that are different objects here must stay so; memory that is written to must overlap as it does."""
    tensors = [value for value in lift.inputs.tensors.values() if not value.is_new]
    keys = [value for value in lift.inputs.keyed.values() if isinstance(value, TensorValue)]
    _guard_distinct(lift, [*tensors, *_without(keys, tensors)])
    _guard_memory(lift, tensors)
    _guard_distinct_objects(lift)


def _guard_memory(lift: Lift, tensors: list[TensorValue]) -> None:
    """What the graph writes to must share memory with the other inputs as it does now: mostly with none."""
    written = written_inputs(lift)
    shared = those_that_share(written, tensors)
    alone = _without(written, shared)
    others = _without(tensors, alone)
    if alone and len(tensors) > 1:
        lift.guards.relate_groups("DISJOINT", _sources(alone), _sources(others))
    for value in shared:
        for other in others:
            if other is not value and value.source is not None and other.source is not None:
                overlaps = _core.tensors_overlap(value.concrete, other.concrete)
                lift.guards.relate("OVERLAP", (value.source, other.source), overlaps)


def _guard_distinct_objects(lift: Lift) -> None:
    """An object that was changed must not be any other input of its type, a key no other key of its type."""
    changing = [*lift.journal.changed, *lift.listeners.values()]
    kinds = [value.python_type() for value in changing if value.has_twins]
    changed = {id(kind): kind for kind in kinds}
    for kind in changed.values():
        _guard_distinct(lift, lift.inputs.of_type(kind))
    keys: dict[int, list[Value]] = {}
    for value in lift.inputs.keyed.values():
        if value.has_twins and not isinstance(value, (TensorValue, KnownObject)):
            keys.setdefault(id(value.python_type()), []).append(value)
    for kind_id, values in keys.items():
        if kind_id not in changed:
            _guard_distinct(lift, values)


def _guard_distinct(lift: Lift, values: Iterable[Value]) -> None:
    sources = _sources(values)
    if len(sources) > 1:
        lift.guards.relate("DISTINCT", sources)


def written_inputs(lift: Lift) -> list[TensorValue]:
    """The inputs that the graph writes to."""
    graph = lift.graph
    mutated = graph.mutated
    return [lift.inputs.tensors[id(ref)] for ref in graph.inputs if ref in mutated]


def _sources(values: Iterable[Value]) -> list[Source]:
    return [value.source for value in values if value.source is not None]


def _without(values: list[TensorValue], left_out: list[TensorValue]) -> list[TensorValue]:
    out = set(map(id, left_out))
    return [value for value in values if id(value) not in out]


def those_that_share(values: list[TensorValue], tensors: list[TensorValue]) -> list[TensorValue]:
    """Those of the values that share memory with another of the tensors."""
    if not values:
        return []
    spans = [(value, _core.tensor_span(value.concrete)) for value in tensors]
    known = sorted([(*span, index) for index, (_, span) in enumerate(spans) if span is not None])
    unknown = [value for value, span in spans if span is None]
    # Sorted by their start, one that overlaps others overlaps the one that reaches furthest so far, or is that one.
    sharing: set[int] = set()
    furthest, holder = 0, -1
    for start, end, index in known:
        if start < furthest and start < end:
            sharing.update((id(tensors[index]), id(tensors[holder])))
        if start < end and end > furthest:
            furthest, holder = end, index
    return [value for value in values if id(value) in sharing or _overlaps(value, unknown, tensors)]


def _overlaps(value: TensorValue, unknown: list[TensorValue], tensors: list[TensorValue]) -> bool:
    """Whether it shares memory with one that does not say where it lies, or does not say so itself."""
    others = tensors if any(value is other for other in unknown) else unknown
    return any(other is not value and _core.tensors_overlap(value.concrete, other.concrete) for other in others)
