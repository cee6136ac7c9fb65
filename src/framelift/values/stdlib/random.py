"""`random.Random`, and the functions of `random`, which are methods of a hidden one.

Of a generator that the program makes or seeds everything is known: its numbers are constants, and it is left in the
state that the program leaves it in. From any other one residual code draws, before the graph runs, as many numbers as
the program does; the graph reads them out of tensors, so they are numbers that depend on data. So are numbers that it
chooses among others, or shuffles; what it chooses among other objects only Python can know.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from framelift.breaks import FL0102, FL0102_ARGUMENTS, FL0102_OPERAND, GraphBreak
from framelift.guards.source import Source
from framelift.values.containers.sequences import ListValue
from framelift.values.core import protocol as py
from framelift.values.core.base import Call, Value
from framelift.values.core.lookup import bind, class_lookup, has_default, raw_lookup
from framelift.values.core.primitives import primitive
from framelift.values.core.refusals import Operation
from framelift.values.stdlib.made_by_call import MadeByCall, constants
from framelift.values.tensors.data_dependent import item_of
from framelift.values.tensors.tensors import TensorValue

if TYPE_CHECKING:
    from framelift.values.core.emitter import Emitter
    from framelift.values.core.tracer import Tracer

_Random = random.Random
# Methods that give one number.
_NUMBERS: tuple[Callable[..., Any], ...] = (
    _Random.random,
    _Random.uniform,
    _Random.gauss,
    _Random.normalvariate,
    _Random.lognormvariate,
    _Random.triangular,
    _Random.betavariate,
    _Random.gammavariate,
    _Random.expovariate,
    _Random.paretovariate,
    _Random.weibullvariate,
    _Random.vonmisesvariate,
    _Random.getrandbits,
    _Random.randrange,
    _Random.randint,
)
# What methods call of each other; all others call these.
_BASIC = ("random", "getrandbits", "_randbelow")
_METHODS = {name: raw_lookup(_Random, name) for name in dir(_Random) if callable(getattr(_Random, name))}
_DTYPES = {float: torch.float64, int: torch.int64}
_SEEDS = (int, float, str, bytes)
# A number is an unbacked symbol and an operation that gives it: that takes as long as tracing so many calls.
_CALLS_PER_NUMBER = 50


class RandomValue(MadeByCall, models=random.Random):
    """A generator; the state of one that existed before the frame is not known until it is seeded."""

    __slots__ = ("draws", "before")
    assigns = (*MadeByCall.assigns, "draws", "before")

    def __init__(self, source: Source | None, concrete: Any, known: random.Random | None = None) -> None:
        super().__init__(source, concrete)
        self.known = known
        # The numbers that residual code draws, in order, and the state before the first of them.
        self.draws: tuple[Source, ...] = ()
        self.before: Source | None = None

    def python_type(self) -> type:
        return random.Random

    def attribute(self, tracer: Tracer, name: str) -> Any:
        found = class_lookup(tracer, random.Random, name)
        if found is None:
            self.refuse(Operation.ATTRIBUTE, name=name)
        return bind(tracer, found, self, random.Random)

    # -- drawing -----------------------------------------------------------------------------------------------------

    def change(self, tracer: Tracer, name: str, *args: Any, **kwargs: Any) -> Any:
        """Call a method of a generator whose state is known, on plain arguments."""
        if self.known is None:
            raise GraphBreak(FL0102, what=f"random.{name} in a state that is not known")
        _note_methods(tracer)
        return super().change(tracer, name, *args, **kwargs)

    def copied(self) -> random.Random:
        return _in_state(self.known.getstate())

    def number(self, tracer: Tracer, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """One number, by a method and plain arguments."""
        if self.known is not None:
            return self.change(tracer, name, *args, **kwargs)
        _note_methods(tracer)
        example = py.fold(tracer, getattr(random.Random(0), name), *args, **kwargs)  # wrong arguments raise
        if not _fits(name, args, kwargs):
            raise GraphBreak(FL0102_ARGUMENTS, what=f"random.{name}")
        return item_of(tracer, self._drawn(tracer, name, args, kwargs, example))

    def chosen(self, tracer: Tracer, name: str, numbers: Any, *args: Any, **kwargs: Any) -> list[Any]:
        """Some of these numbers, by a function that gives a list of them and plain arguments."""
        _note_methods(tracer)
        example = py.items(
            tracer, py.fold(tracer, _CHOOSING[name], random.Random(0), numbers, *args, **kwargs)
        )  # wrong ones raise
        kinds = set(map(type, numbers))
        if len(kinds) != 1 or not kinds <= set(_DTYPES) or not all(map(_fits_tensor, numbers)):
            raise GraphBreak(FL0102, what=f"random.{name} among what are not numbers of one kind")
        if not example:
            raise GraphBreak(FL0102, what=f"random.{name} of nothing")
        drawn = self._drawn(tracer, name, [numbers, *args], kwargs, example)
        return [item_of(tracer, py.item(tracer, drawn, position)) for position in range(len(example))]

    def _drawn(self, tracer: Tracer, name: str, args: list[Any], kwargs: dict[str, Any], example: Any) -> TensorValue:
        """What residual code draws, as a tensor; `example` is alike."""
        kind = type(example[0] if type(example) is list else example)
        if kind not in _DTYPES or self.source is None or not tracer.makes_leaves():
            raise GraphBreak(FL0102_ARGUMENTS, what=f"random.{name}")
        tracer.spend(_CALLS_PER_NUMBER * (len(example) if type(example) is list else 1), "too many random numbers")
        self.note(tracer)
        tracer.journal.touch(self)
        if self.before is None:
            self.before = tracer.sources.new(State(self.source))
        source = tracer.sources.new(Draw(self.source, name, tuple(args), tuple(kwargs.items()), kind))
        self.draws = (*self.draws, source)
        shape = (len(example),) if type(example) is list else ()
        return TensorValue(None, source, torch.zeros(shape, dtype=_DTYPES[kind], device="cpu"))

    def seed(self, tracer: Tracer, known: random.Random) -> None:
        self.note(tracer)
        tracer.journal.touch(self)
        self.known = known

    # -- the journal, the way back -----------------------------------------------------------------------------------

    def replay(self, emit: Emitter) -> None:
        """All numbers are drawn, used or not."""
        for draw in self.draws:
            emit.source(draw)
            emit.builder.pop_top()
        if self.draws and self._may_be_run_again(emit):
            emit.source(self.before)
            emit.builder.pop_top()
        if self.known is not None:
            state = self.known.getstate()
            self._set_state(emit, lambda: emit.constant(state))

    def put_back(self, emit: Emitter) -> None:
        if self.draws and self._may_be_run_again(emit):
            self._set_state(emit, lambda: emit.source(self.before))

    def _may_be_run_again(self, emit: Emitter) -> bool:
        return any(record.must_run for record in emit.tracer.graph.records)

    def _set_state(self, emit: Emitter, load: Callable[[], None]) -> None:
        emit.builder.load_callable(random.Random.setstate)
        emit.source(self.source)
        load()
        emit.builder.call(2)
        emit.builder.pop_top()

    def made_by(self) -> Call:
        return _in_state, [self.known.getstate()]


def _note_methods(tracer: Tracer) -> None:
    """Methods are run here, and those they call: a program may put others in their place."""
    for name, method in _METHODS.items():
        if raw_lookup(_Random, name) is not method:
            raise GraphBreak(FL0102, what=f"random numbers by another Random.{name}")
    for name in _BASIC:
        has_default(tracer, _Random, name, _METHODS[name])


def _in_state(state: Any) -> random.Random:
    generator = random.Random(0)
    generator.setstate(state)
    return generator


def _fits(name: str, args: list[Any], kwargs: dict[str, Any]) -> bool:
    """Whether what a method gives fits the dtypes of torch."""
    bits = name == "getrandbits" and bool(args) and type(args[0]) is int and args[0] > 62
    return not bits and all(map(_fits_tensor, [*args, *kwargs.values()]))


def _fits_tensor(number: Any) -> bool:
    return type(number) is not int or abs(number) < 1 << 62


class State(NamedTuple):
    """How residual code learns the state before it draws."""

    generator: Source

    def generate(self, emit: Emitter) -> None:
        emit.builder.load_callable(random.Random.getstate)
        emit.source(self.generator)
        emit.builder.call(1)


class Draw(NamedTuple):
    """How residual code draws a number, for the graph."""

    generator: Source
    method: str
    args: tuple[Any, ...]
    kwargs: tuple[tuple[str, Any], ...]
    kind: type

    def generate(self, emit: Emitter) -> None:
        emit.builder.load_callable(_draw)
        emit.source(self.generator)
        for constant in (self.method, self.args, self.kwargs, _DTYPES[self.kind]):
            emit.constant(constant)
        emit.builder.call(5)


def _draw(generator: random.Random, name: str, args: Any, kwargs: Any, dtype: torch.dtype) -> torch.Tensor:
    choose = _CHOOSING.get(name)
    if choose is not None:
        return torch.tensor(choose(generator, *args, **dict(kwargs)), dtype=dtype, device="cpu")
    return torch.scalar_tensor(getattr(generator, name)(*args, **dict(kwargs)), dtype=dtype, device="cpu")


def _shuffled(generator: random.Random, numbers: Sequence[Any]) -> list[Any]:
    shuffled = list(numbers)
    generator.shuffle(shuffled)
    return shuffled


# Methods that choose among numbers, as functions that give the chosen ones.
_CHOOSING: dict[str, Callable[..., list[Any]]] = {
    "choice": lambda generator, numbers: [generator.choice(numbers)],
    "choices": _Random.choices,
    "sample": _Random.sample,
    "shuffle": _shuffled,
}


# -- the functions ---------------------------------------------------------------------------------------------------


def _register_numbers() -> None:
    for function in _NUMBERS:

        def draw(tracer: Tracer, generator: Any, /, *args: Any, _name: str = function.__name__, **kwargs: Any) -> Any:
            plain, named = constants(tracer, list(args), kwargs)
            return _generator(generator, _name).number(tracer, _name, list(plain), named)

        primitive(function)(draw)


def _generator(value: Any, name: str) -> RandomValue:
    if not isinstance(value, RandomValue):
        raise GraphBreak(FL0102, what=f"random.{name} of a class of its own")
    return value


_register_numbers()


@primitive(random.Random)
def _make(tracer: Tracer, seed: Any = None, /) -> Any:
    return RandomValue(None, None, _seeded(tracer, seed))


def _seeded(tracer: Tracer, seed: Any) -> random.Random:
    plain = tracer.constant(seed)
    if type(plain) not in _SEEDS:
        raise GraphBreak(FL0102, what="random.Random without a seed")
    return random.Random(plain)


@primitive(random.Random.seed)
def _seed(tracer: Tracer, generator: Any, a: Any = None, version: Any = 2) -> None:
    if not py.equal(tracer, version, 2):
        raise GraphBreak(FL0102, what="random.seed of an old version")
    _generator(generator, "seed").seed(tracer, _seeded(tracer, a))


@primitive(random.Random.getstate)
def _getstate(tracer: Tracer, generator: Any) -> Any:
    return _generator(generator, "getstate").change(tracer, "getstate")


@primitive(random.Random.setstate)
def _setstate(tracer: Tracer, generator: Any, state: Any) -> None:
    if isinstance(state, Value):
        raise GraphBreak(FL0102, what="random.setstate of what is not known")
    py.fold(tracer, random.Random(0).setstate, state)  # a wrong state raises
    _generator(generator, "setstate").seed(tracer, _in_state(state))


@primitive(random.Random._randbelow)  # type: ignore[attr-defined]
def _randbelow(tracer: Tracer, generator: Any, n: Any) -> Any:
    return _generator(generator, "_randbelow").change(tracer, "_randbelow", tracer.constant(n))


# -- of sequences: the same numbers choose among positions, where it is known which -----------------------------------


@primitive(random.Random.choice)
def _choice(tracer: Tracer, generator: Any, seq: Any) -> Any:
    chooser = _generator(generator, "choice")
    count = tracer.constant(py.length(tracer, seq))
    if not count:
        raise GraphBreak(FL0102, what="random.choice of nothing")
    if chooser.known is None:
        return chooser.chosen(tracer, "choice", _plain(tracer, seq))[0]
    return py.item(tracer, seq, chooser.change(tracer, "choice", range(count)))


@primitive(random.Random.shuffle)
def _shuffle(tracer: Tracer, generator: Any, x: Any) -> None:
    chooser = _generator(generator, "shuffle")
    if not isinstance(x, ListValue):
        raise GraphBreak(FL0102_OPERAND, what="random.shuffle", operand=py.describe(x))
    items = py.items(tracer, x)
    if len(items) < 2:
        return
    if chooser.known is None:
        shuffled = chooser.chosen(tracer, "shuffle", _plain(tracer, x))
    else:
        positions = list(range(len(items)))
        chooser.change(tracer, "shuffle", positions)
        shuffled = [items[position] for position in positions]
    for position, item in enumerate(shuffled):
        py.set_item(tracer, x, position, item)


@primitive(random.Random.sample)
def _sample(tracer: Tracer, generator: Any, population: Any, k: Any) -> Any:
    chooser = _generator(generator, "sample")
    if not py.has_type(population, list, tuple, str, bytes, range):
        raise GraphBreak(FL0102_OPERAND, what="random.sample", operand=py.describe(population))
    if chooser.known is None:
        return ListValue(chooser.chosen(tracer, "sample", _plain(tracer, population), tracer.constant(k)))
    count = tracer.constant(py.length(tracer, population))
    return _at(tracer, population, chooser.change(tracer, "sample", range(count), tracer.constant(k)))


@primitive(random.Random.choices)
def _choices(
    tracer: Tracer, generator: Any, population: Any, weights: Any = None, *, cum_weights: Any = None, k: Any = 1
) -> Any:
    chooser = _generator(generator, "choices")
    count = tracer.constant(py.length(tracer, population))
    if not count:
        raise GraphBreak(FL0102, what="random.choices of nothing")
    plain = {
        "weights": _numbers(tracer, weights),
        "cum_weights": _numbers(tracer, cum_weights),
        "k": tracer.constant(k),
    }
    if chooser.known is None:
        return ListValue(chooser.chosen(tracer, "choices", _plain(tracer, population), **plain))
    return _at(tracer, population, chooser.change(tracer, "choices", range(count), **plain))


def _plain(tracer: Tracer, population: Any) -> Any:
    """A sequence of constants that cannot change."""
    if type(population) is range:
        return population
    if not py.has_type(population, list, tuple):
        raise GraphBreak(FL0102_OPERAND, what="a random choice among the items", operand=py.describe(population))
    return tuple([tracer.constant(item) for item in py.items(tracer, population)])


def _at(tracer: Tracer, population: Any, positions: Any) -> Any:
    return ListValue([py.item(tracer, population, position) for position in py.items(tracer, positions)])


def _numbers(tracer: Tracer, weights: Any) -> Any:
    return None if py.same(tracer, weights, None) else tuple([tracer.constant(w) for w in py.items(tracer, weights)])
