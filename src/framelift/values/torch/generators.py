"""`torch.Generator`: an object with a state, which is a tensor of the graph.

What is drawn from it is an operation from one state to the next (`graph/operations/generators.py`). After the graph, a
generator that was there before is set to the state that the program left it in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from framelift.breaks import FL0102, GraphBreak
from framelift.graph.operations.default_generators import SEEDED, manual_seed, rng_state, set_rng_state
from framelift.graph.operations.generators import drawn, in_state, spelled
from framelift.guards.source import Source
from framelift.values.core import protocol as py
from framelift.values.core.base import Call, KnownObject, Value
from framelift.values.core.lookup import bind, class_lookup
from framelift.values.core.primitives import primitive
from framelift.values.core.refusals import Operation
from framelift.values.tensors.tensors import TensorValue
from framelift.values.torch.data_errors import may_raise

if TYPE_CHECKING:
    from framelift.values.core.emitter import Emitter
    from framelift.values.core.tracer import Tracer


class GeneratorValue(Value, models=torch.Generator):
    """A generator; `current` is the state it is in, None while that is the one it was given in."""

    __slots__ = ("device", "current")
    assigns = ("current",)

    def __init__(self, source: Source | None, concrete: Any, device: torch.device, current: Any = None) -> None:
        super().__init__(source, concrete)
        self.device = device
        self.current = current

    @classmethod
    def from_input(cls, obj: Any, source: Source) -> Value:
        return DefaultGeneratorValue(source, obj) if _is_of_torch(obj) else cls(source, obj, obj.device)

    def python_type(self) -> type:
        return torch.Generator

    def note_facts(self, tracer: Tracer) -> None:
        assert self.source is not None
        super().note_facts(tracer)
        for default in _of_torch():
            tracer.guard(self.source, "NOT_IS", default)
        tracer.constant(tracer.wrap(self.device, self.source.child("GETATTR", "device")))

    def attribute(self, tracer: Tracer, name: str) -> Any:
        self.note(tracer)
        return self.device if name == "device" else _method(tracer, self, name)

    def state_now(self, tracer: Tracer) -> TensorValue:
        """The state, as a tensor of the graph."""
        self.note(tracer)
        if self.current is None:
            assert self.source is not None
            tracer.journal.touch(self)
            self.current = _state_made_by(tracer, Given(self.source), self.device)
        made: TensorValue = self.current
        return made

    def move_to(self, tracer: Tracer, state: TensorValue) -> None:
        self.note(tracer)
        tracer.journal.touch(self)
        self.current = state

    def draw(
        self, tracer: Tracer, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], raises: bool | None
    ) -> Any:
        """The result of an operation that draws from it."""
        name = spelled(target)
        if name is None or "out" in kwargs:
            raise GraphBreak(FL0102, what=f"{target} with a generator")
        may = may_raise(target, tuple(map(tracer.graph_argument, args))) if raises is None else raises
        call = tracer.call_opaque if may else tracer.call_torch
        made = call(drawn, (name, str(self.device), self.state_now(tracer), *args), kwargs)
        result, state = py.items(tracer, made)
        self.move_to(tracer, state)
        return result

    def replay(self, emit: Emitter) -> None:
        emit.builder.load_callable(torch.Generator.set_state)
        emit.source(self.source)
        emit.value(self.current)
        emit.builder.call(2)
        emit.builder.pop_top()

    def parts(self) -> list[Any]:
        return [] if self.current is None else [self.current]

    def made_by(self) -> Call:
        return in_state, [str(self.device), self.current]


class DefaultGeneratorValue(KnownObject):
    """The generator that operations draw from where they are given none."""

    __slots__ = ()

    def attribute(self, tracer: Tracer, name: str) -> Any:
        self.note(tracer)
        return self.concrete.device if name == "device" else _method(tracer, self, name)


def _method(tracer: Tracer, generator: Value, name: str) -> Any:
    found = class_lookup(tracer, torch.Generator, name)
    if found is None:
        generator.refuse(Operation.ATTRIBUTE, name=name)
    return bind(tracer, found, generator, torch.Generator)


def _of_torch() -> tuple[torch.Generator, ...]:
    return (torch.default_generator, *torch.cuda.default_generators)


def _is_of_torch(generator: torch.Generator) -> bool:
    return any(generator is default for default in _of_torch())


def is_default(tracer: Tracer, generator: Any) -> bool:
    """Whether an operation that is given this draws from the default generator of the CPU."""
    if isinstance(generator, DefaultGeneratorValue):
        generator.note(tracer)
        return generator.concrete is torch.default_generator
    return py.same(tracer, generator, None)


class Given(NamedTuple):
    """How residual code learns in which state a generator is given."""

    generator: Source

    def generate(self, emit: Emitter) -> None:
        emit.builder.load_callable(torch.Generator.get_state)
        emit.source(self.generator)
        emit.builder.call(1)


class Seeded(NamedTuple):
    """How residual code learns the state that a seed leads to."""

    device: str
    seed: int | None

    def generate(self, emit: Emitter) -> None:
        emit.builder.load_callable(_seeded_state)
        emit.constant(self.device)
        emit.constant(self.seed)
        emit.builder.call(2)


def _seeded_state(device: str, seed: int | None) -> torch.Tensor:
    generator = torch.Generator(device)
    return (generator if seed is None else generator.manual_seed(seed)).get_state()


def _state_made_by(tracer: Tracer, recipe: Any, device: torch.device) -> TensorValue:
    """A state that residual code makes before the graph."""
    if not tracer.makes_leaves():
        raise GraphBreak(FL0102, what="the state of a generator")
    return TensorValue(None, tracer.sources.new(recipe), torch.Generator(device).get_state())


def _generator(value: Any, method: str) -> GeneratorValue:
    if not isinstance(value, GeneratorValue):
        raise GraphBreak(FL0102, what=f"torch.Generator.{method} of a class of its own")
    return value


@primitive(torch.Generator)
def _make(tracer: Tracer, device: Any = "cpu") -> GeneratorValue:
    place = py.evaluate(tracer, torch.Generator, tracer.constant(device)).device
    return GeneratorValue(None, None, place, _state_made_by(tracer, Seeded(str(place), None), place))


@primitive(torch.Generator.manual_seed)
def _manual_seed(tracer: Tracer, generator: Any, seed: Any) -> Any:
    if isinstance(generator, DefaultGeneratorValue):
        _seed(tracer, seed, "cpu" if is_default(tracer, generator) else "another device")
        return generator
    known = _generator(generator, "manual_seed")
    recipe = Seeded(str(known.device), _checked(tracer, seed))
    known.move_to(tracer, _state_made_by(tracer, recipe, known.device))
    return known


def _checked(tracer: Tracer, seed: Any) -> Any:
    """A seed of the program's; wrong ones raise."""
    number = tracer.constant(seed)
    py.evaluate(tracer, torch.Generator().manual_seed, number)
    return number


@primitive(torch.Generator.get_state)
def _get_state(tracer: Tracer, generator: Any) -> Any:
    if isinstance(generator, DefaultGeneratorValue):
        generator.note(tracer)
        return _call(tracer, rng_state, str(generator.concrete.device))
    return tracer.call_tensor_method("clone", (_generator(generator, "get_state").state_now(tracer),), {})


@primitive(torch.Generator.set_state)
def _set_state(tracer: Tracer, generator: Any, new_state: Any) -> Any:
    if isinstance(generator, DefaultGeneratorValue):
        generator.note(tracer)
        _set_state_of_default(tracer, generator.concrete.device, new_state)
        return generator
    known = _generator(generator, "set_state")
    _check_state(tracer, new_state, known.device)
    known.move_to(tracer, tracer.call_tensor_method("clone", (new_state,), {}))
    return known


def _check_state(tracer: Tracer, state: Any, device: torch.device) -> None:
    """Break for what torch may not take for a state of a generator."""
    example = torch.Generator(device).get_state()
    if not isinstance(state, TensorValue) or any(
        getattr(state.ref(tracer).descriptor, fact) != found
        for fact, found in (("shape", tuple(example.shape)), ("dtype", example.dtype), ("device", example.device))
    ):
        raise GraphBreak(FL0102, what="setting a generator to what is no state of it")


@primitive(torch.Generator.clone_state)
def _clone_state(tracer: Tracer, generator: Any) -> GeneratorValue:
    return GeneratorValue(None, None, _generator(generator, "clone_state").device, _get_state(tracer, generator))


# -- the default generators ------------------------------------------------------------------------------------------


def _call(tracer: Tracer, operation: Any, *args: Any) -> Any:
    """An operation on default generators, told from all others by how much of the program was before it."""
    if tracer.modes.transforms:
        raise GraphBreak(FL0102, what="the state of a generator inside of a functorch transform")
    return tracer.call_torch(operation, (*args, tracer.steps.count), {})


@primitive(torch.get_rng_state)
def _get_default_state(tracer: Tracer) -> Any:
    return _call(tracer, rng_state, "cpu")


@primitive(torch.set_rng_state)
def _set_default_state(tracer: Tracer, new_state: Any) -> None:
    _set_state_of_default(tracer, torch.device("cpu"), new_state)


def _set_state_of_default(tracer: Tracer, device: torch.device, new_state: Any) -> None:
    _check_state(tracer, new_state, device)
    _call(tracer, set_rng_state, str(device), new_state)


@primitive(torch.cuda.get_rng_state)
def _get_state_of_a_gpu(tracer: Tracer, device: Any = "cuda") -> Any:
    return _call(tracer, rng_state, str(_gpu(tracer, device)))


@primitive(torch.cuda.set_rng_state)
def _set_state_of_a_gpu(tracer: Tracer, new_state: Any, device: Any = "cuda") -> None:
    _set_state_of_default(tracer, _gpu(tracer, device), new_state)


def _gpu(tracer: Tracer, device: Any) -> torch.device:
    """The GPU that is meant; without a number it is the current one, when the graph runs."""
    if not torch.cuda.is_available():
        raise GraphBreak(FL0102, what="the state of a GPU's generator, where there is none")
    given = tracer.constant(device)
    return torch.device("cuda", given) if isinstance(given, int) else torch.device(given)


def _seed(tracer: Tracer, seed: Any, which: str) -> None:
    if which not in SEEDED:
        raise GraphBreak(FL0102, what=f"seeding {which}")
    _call(tracer, manual_seed, str(_checked(tracer, seed)), which)


@primitive(torch.manual_seed)
def _seed_all(tracer: Tracer, seed: Any) -> Any:
    _seed(tracer, py.evaluate(tracer, int, tracer.constant(seed)), "all")
    return tracer.known_object(torch.default_generator)


@primitive(torch.cuda.manual_seed)
def _seed_cuda(tracer: Tracer, seed: Any) -> None:
    _seed(tracer, py.evaluate(tracer, int, tracer.constant(seed)), "cuda")


@primitive(torch.cuda.manual_seed_all)
def _seed_all_cuda(tracer: Tracer, seed: Any) -> None:
    _seed(tracer, py.evaluate(tracer, int, tracer.constant(seed)), "cuda, all")
