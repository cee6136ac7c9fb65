"""What a graph was exported for, as checks of the arguments it is called with.

An exported graph has no other entry to fall back on, so a guard on an argument that does not hold is an error that says
what was expected and what was found. Guards on all else (globals, classes, the exported module itself) are about what
was copied into the graph. Python code throughout, with nothing but what a tracer understands for tensors: an exported
module may be captured in its turn.

    >>> from framelift.guards.guardset import GuardSet
    >>> x, guards = Source(None, "ARG", 0, "x"), GuardSet()
    >>> guards.add(x, "TENSOR", torch.ones(4), None)
    >>> ArgumentChecks(guards.guards, (), lambda source: source, Asked()).failure([torch.ones(6)])
    'x.size()[0] was 4 when it was exported, now 6 (dynamic_shapes says which sizes may differ)'
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import torch

from framelift.guards.accessors import ACCESSORS, Accessor
from framelift.guards.checks import CHECKS, Check
from framelift.guards.guardset import Guard
from framelift.guards.reading import MISSING, number_at
from framelift.guards.relations import Relation
from framelift.guards.source import Source
from framelift.guards.words import shown
from framelift.native.torch.tensor_spec import TensorSpec
from framelift.shapes.guard_program import GuardProgram, Load, Number, Step, first_failure

# Where a guard's source is found among the arguments by their names; None: it is none of them.
PlaceOf = Callable[[Source], Source | None]

_ACCESSORS: dict[str, Accessor] = {accessor.name: accessor for accessor in ACCESSORS.values()}
_CHECKS: dict[str, Check] = {check.name: check for check in CHECKS.values()}
_DYNAMIC = " (dynamic_shapes says which sizes may differ)"


class Asked(NamedTuple):
    """What decided something while the graph was captured: how tensors lie in memory, whether autograd knows them."""

    layout: bool = False
    history: bool = False


class _Gone(Exception):
    """There is nothing at a source."""


class _Fact(NamedTuple):
    """One fact about numbers of the arguments."""

    words: str
    members: tuple[Source, ...]
    program: GuardProgram


class ArgumentChecks:
    """The guards on arguments, by the names that the caller knows."""

    def __init__(self, guards: Iterable[Guard], relations: Iterable[Relation], place_of: PlaceOf, asked: Asked) -> None:
        self._asked = asked
        self._checks: list[tuple[Source, str, Any]] = []
        self._objects: list[tuple[Source, Source, bool]] = []
        self._facts: list[_Fact] = []
        for guard in guards:
            place = place_of(guard.source)
            if place is not None:
                self._checks.append((place, guard.check, guard.native_argument))
        for relation in relations:
            places = [place_of(source) for source in relation.sources]
            if relation.kind in ("SAME", "DISTINCT"):
                known = [place for place in places if place is not None]
                self._objects += [(*pair, relation.kind == "SAME") for pair in _pairs(known)]
            elif relation.program is not None:
                self._facts += _facts(relation, places, asked.layout)

    def failure(self, arguments: Sequence[Any]) -> str | None:
        """The first guard that does not hold of these arguments, in words."""
        found = next(self._failures(arguments), None)
        return None if found is None else found.replace(", now ", " when it was exported, now ")

    def wrong_number(self, arguments: Sequence[Any]) -> str | None:
        """The first fact that does not hold of the sizes and numbers among them, in words.

        The graph checks the same; here somebody is told what was found. Whoever traces the module has symbols for it.
        """
        if torch.compiler.is_compiling():
            return None
        for words, members, program in self._facts:
            values = [_reached(member, arguments) for member in members]
            numbers = [_number(values[member], kind, index) for member, kind, index in program.loads]
            if any(isinstance(number, torch.SymInt | torch.SymFloat | torch.fx.Proxy) for number in numbers):
                continue
            known = [number for number in numbers if number is not None]
            if len(known) < len(numbers) or first_failure(program, known) is not None:
                pairs = zip(program.names, numbers, strict=True)
                return f"{words}, where {' and '.join(f'{name} is {number}' for name, number in pairs)}"
        return None

    def _failures(self, arguments: Sequence[Any]) -> Iterator[str]:
        for source, name, expected in self._checks:
            try:
                found = _reached(source, arguments)
            except _Gone:
                yield f"there was {source.name}, now there is none"
                continue
            if name == "TENSOR":
                yield from _tensor_changes(source.name, TensorSpec(*expected), found, self._asked)
            elif name != "PRESENT" and not _CHECKS[name].holds(found, expected):
                yield _CHECKS[name].change(source.name, expected, found)
        for first, second, is_same in self._objects:
            if (_reached(first, arguments) is _reached(second, arguments)) is not is_same:
                one, other = ("one object", "two") if is_same else ("two objects", "one")
                yield f"{first.name} and {second.name} were {one}, now they are {other}"


def _reached(source: Source, arguments: Sequence[Any]) -> Any:
    """What stands at a source now."""
    if source.parent is None:
        return arguments[source.argument]
    found = _ACCESSORS[source.access].step(_reached(source.parent, arguments), source.argument)
    if found is MISSING:
        raise _Gone
    return found


def _tensor_changes(name: str, spec: TensorSpec, found: Any, asked: Asked) -> Iterator[str]:
    """In what a tensor differs from the one at export, as far as the graph depends on it."""
    if isinstance(found, torch.fx.Proxy):  # the module is being traced
        return
    if not isinstance(found, torch.Tensor):
        yield f"{name} was a tensor, now {shown(found)}"
        return
    for field in ("dtype", "device", "layout", *(("requires_grad", "is_leaf") if asked.history else ())):
        expected, now = getattr(spec, field), getattr(found, field)
        if expected is not None and expected != now:
            yield f"{name}.{field} was {expected}, now {now}"
    if spec.sizes is None:
        return
    if len(spec.sizes) != found.dim():
        yield f"{name}.dim() was {len(spec.sizes)}, now {found.dim()}: {_sizes(spec)} became {list(found.shape)}"
        return
    for dim, (size, new) in enumerate(zip(spec.sizes, found.shape, strict=True)):
        if size is not None and size != new:
            yield f"{name}.size()[{dim}] was {size}, now {new}{_DYNAMIC}"
    if asked.layout and spec.strides is not None:
        for dim, (stride, new) in enumerate(zip(spec.strides, found.stride(), strict=True)):
            if stride is not None and stride != new:
                yield f"{name}.stride()[{dim}] was {stride}, now {new}"


def _number(value: Any, kind: int, index: int) -> Any:
    """What a program loads; it may be a symbol of whoever traces the module."""
    if isinstance(value, torch.SymInt | torch.SymFloat | torch.fx.Proxy):
        return value
    if not isinstance(value, torch.Tensor):
        return number_at(value, kind, index)
    entries = value.shape if kind == Load.SIZE else value.stride()
    return entries[index] if index < len(entries) else None


def _sizes(spec: TensorSpec) -> str:
    return f"[{', '.join('any' if size is None else str(size) for size in spec.sizes or ())}]"


def _pairs(sources: Sequence[Source]) -> Iterator[tuple[Source, Source]]:
    for index, first in enumerate(sources):
        for second in sources[index + 1 :]:
            yield first, second


def _facts(relation: Relation, places: Sequence[Source | None], layout: bool) -> Iterator[_Fact]:
    """The facts of a program about arguments, one by one; about strides only where the layout decided something."""
    assert relation.program is not None
    loads, code, words, names = relation.program
    renamed = [_renamed(name, relation.sources, places) for name in names]
    part: list[tuple[int, Number]] = []
    texts = iter(words)
    for step in code:
        part.append(step)
        if step[0] != Step.CHECK:
            continue
        used = sorted({int(argument) for op, argument in part if op == Step.LOAD})
        text = _renamed(next(texts), relation.sources, places)
        own = tuple((op, used.index(int(argument)) if op == Step.LOAD else argument) for op, argument in part)
        part = []
        members = [places[loads[load][0]] for load in used]
        known = tuple(member for member in members if member is not None)
        if len(known) == len(members) and (layout or all(loads[load][1] != Load.STRIDE for load in used)):
            numbers = tuple((at, *loads[load][1:]) for at, load in enumerate(used))
            yield _Fact(text, known, GuardProgram(numbers, own, (text,), tuple(renamed[load] for load in used)))


def _renamed(text: str, sources: Sequence[Source], places: Sequence[Source | None]) -> str:
    """The names of arguments in the place of those that the guards have for them."""
    for source, place in zip(sources, places, strict=True):
        if place is not None:
            root = _root(place).name
            text = text.replace(source.name, f"L[{root!r}]{place.name.removeprefix(root)}")
    return text


def _root(source: Source) -> Source:
    return source if source.parent is None else _root(source.parent)
