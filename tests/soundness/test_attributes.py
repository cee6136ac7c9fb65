"""Changes of what attributes of objects and classes mean are seen."""

from __future__ import annotations

import dataclasses
import enum
from typing import Any

import torch

from tests.soundness.scenario import ANY, HIT, MISS, Scenarios, Steps, X, classes, function, namespace, play

scenario = Scenarios()


@scenario
def method_monkeypatched_on_the_class() -> Steps:
    base, derived = classes()
    yield (lambda a, x: a.scale(x)), (derived(), X)
    base.scale = lambda self, x: x * 7
    yield MISS
    derived.scale = lambda self, x: x * 8
    yield MISS
    del derived.scale
    yield ANY


@scenario
def class_attribute_before_one_the_program_assigns() -> Steps:
    base, derived = classes()
    names = namespace(base=base, derived=derived)
    yield function("def f(x):\n base.late = 2\n return x * derived.late", names), (X,)
    derived.late = 5
    yield MISS
    del derived.late
    yield HIT


@scenario
def class_attribute_that_is_also_the_classes_own() -> Steps:
    base, derived = classes()
    base.flag = True
    names = namespace(derived=derived)
    yield function("def f(x): return x * (2 if 'flag' in vars(derived) else 3)", names), (X,)
    derived.flag = True  # the very object that its base has
    yield MISS
    del derived.flag
    yield HIT


@scenario
def class_attribute_that_super_passes_over() -> Steps:
    base, left = classes()

    class Right(base):  # type: ignore[misc]
        factor = 11

    class Both(left, Right):  # type: ignore[misc]
        def scale(self, x: Any) -> Any:
            return x * super().factor

    yield (lambda a, x: a.scale(x)), (Both(), X)
    left.factor = base.factor  # the very object that its base has
    yield MISS
    del left.factor
    yield HIT


@scenario
def method_set_on_the_instance() -> Steps:
    base, _ = classes()
    a = base()
    yield (lambda a, x: a.scale(x)), (a, X)
    a.scale = lambda x: x * 7
    yield MISS
    del a.scale
    yield HIT


@scenario
def method_of_a_global_object() -> Steps:
    base, _ = classes()
    names = namespace(a=base())
    yield function("def f(x): return a.scale(x)", names), (X,)
    base.scale = lambda self, x: x * 7
    yield MISS


@scenario
def class_attribute_added_later_in_the_mro() -> Steps:
    base, derived = classes()
    yield (lambda a, x: x * a.factor), (derived(), X)
    derived.factor = 11
    yield MISS
    del derived.factor
    yield ANY
    base.factor = 4
    yield ANY


@scenario
def instance_attribute_over_class_attribute() -> Steps:
    base, _ = classes()
    a = base()
    yield (lambda a, x: x * a.factor), (a, X)
    a.factor = 9
    yield MISS
    del a.factor
    yield HIT


@scenario
def instance_attribute_over_getattr() -> Steps:
    class Fallback:
        def __getattr__(self, name: str) -> Any:
            return 3

    a = Fallback()
    yield (lambda a, x: x * a.missing), (a, X)
    a.missing = 4
    yield MISS
    del a.missing
    yield HIT
    Fallback.missing = 6
    yield MISS


@scenario
def getattr_replaced() -> Steps:
    class Fallback:
        def __getattr__(self, name: str) -> Any:
            return 3

    yield (lambda a, x: x * a.missing), (Fallback(), X)
    Fallback.__getattr__ = lambda self, name: 4
    yield MISS


@scenario
def getattribute_added() -> Steps:
    base, _ = classes()
    yield (lambda a, x: x * a.own), (base(), X)
    base.__getattribute__ = lambda self, name: 4
    yield MISS


@scenario
def property_replaced() -> Steps:
    base, _ = classes()
    yield (lambda a, x: x * a.size), (base(), X)
    base.size = property(lambda self: 4)
    yield MISS
    base.size = 6
    yield MISS


@scenario
def property_reads_changed_state() -> Steps:
    class Reader:
        def __init__(self) -> None:
            self.n = 2

        @property
        def size(self) -> int:
            return self.n + 1

    a = Reader()
    yield (lambda a, x: x * a.size), (a, X)
    a.n = 3
    yield MISS


@scenario
def static_and_class_methods_replaced() -> Steps:
    base, _ = classes()
    yield (lambda a, x: a.fixed(x) + a.made(x)), (base(), X)
    base.fixed = staticmethod(lambda x: x * 9)
    yield MISS
    base.made = classmethod(lambda cls, x: x * 7)
    yield MISS
    base.factor = 1
    yield HIT


@scenario
def class_of_the_instance_swapped() -> Steps:
    base, derived = classes()
    derived.factor = 13
    a = base()
    yield (lambda a, x: x * a.factor), (a, X)
    a.__class__ = derived
    yield MISS
    a.__class__ = base
    yield HIT


@scenario
def dict_of_the_instance_replaced() -> Steps:
    base, _ = classes()
    a = base()
    yield (lambda a, x: x * a.own), (a, X)
    a.__dict__ = {"own": 6}
    yield MISS
    a.__dict__ = {"own": 5, "more": 1}
    yield HIT


@scenario
def bases_swapped() -> Steps:
    base, derived = classes()

    class Other:
        factor = 21

    a = derived()
    yield (lambda a, x: x * a.factor), (a, X)
    derived.__bases__ = (Other,)
    yield MISS


@scenario
def slot_changed() -> Steps:
    class Slotted:
        __slots__ = ("n", "t")

    a = Slotted()
    a.n, a.t = 2, torch.ones(4)
    yield (lambda a, x: x * a.n + a.t), (a, X)
    a.n = 3
    yield MISS
    a.t = torch.zeros(4)
    yield HIT
    a.t = torch.zeros(1)
    yield MISS
    del a.n
    yield ANY


@scenario
def slot_replaced_on_the_class() -> Steps:
    class Slotted:
        __slots__ = ("n",)

    a = Slotted()
    a.n = 2
    yield (lambda a, x: x * a.n), (a, X)
    Slotted.n = 5
    yield MISS


@scenario
def method_of_a_class_made_inside() -> Steps:
    """Row l: a closure list changed in a method of a class made while tracing."""
    seen: list[int] = []

    class Appends:
        def run(self, x: Any) -> Any:
            seen.append(1)
            return x + len(seen)

    def f(x: Any) -> Any:
        seen.clear()
        Appends().run(x)
        return Appends().run(x), list(seen)

    yield f, (X,)


@scenario
def enum_member() -> Steps:
    class Mode(enum.Enum):
        UP = 1
        DOWN = 2

    names = namespace(Mode=Mode, current=Mode.UP)
    yield function("def f(x): return x + 1 if current is Mode.UP else x - 1", names), (X,)
    names["current"] = Mode.DOWN
    yield MISS
    names["current"] = Mode.UP
    yield HIT


@scenario(breaks=True)
def enum_value() -> Steps:
    class Mode(enum.IntEnum):
        UP = 1
        DOWN = 2

    names = namespace(current=Mode.UP)
    yield function("def f(x): return x * current.value", names), (X,)
    names["current"] = Mode.DOWN
    yield MISS


@scenario
def dataclass_field() -> Steps:
    @dataclasses.dataclass
    class Config:
        scale: float = 2.0
        shift: int = 1

    config = Config()
    yield (lambda c, x: x * c.scale + c.shift), (config, X)
    config.scale = 3.0
    yield MISS
    config.shift = 5
    yield MISS
    yield HIT, (Config(3.0, 5), X)


@scenario
def frozen_dataclass_argument() -> Steps:
    @dataclasses.dataclass(frozen=True)
    class Config:
        scale: float = 2.0

    yield (lambda c, x: x * c.scale), (Config(), X)
    yield MISS, (Config(4.0), X)
    yield HIT, (Config(2.0), X)


@scenario.parametrize()
def test_change_is_seen(steps: Any, breaks: bool) -> None:
    play(steps, breaks)
