"""Changes of functions, classes, objects and containers are seen."""

from __future__ import annotations

import abc
import builtins
import collections
import collections.abc
import dataclasses
import enum
import functools
import sys
import types
from typing import Any

import torch

from tests.soundness.scenario import ANY, HIT, MISS, Scenarios, Steps, X, function, namespace, play

scenario = Scenarios()


# -- functions -------------------------------------------------------------------------------------------------------


@scenario
def global_constant_rebound() -> Steps:
    names = namespace(k=2)
    yield function("def f(x): return x * k", names), (X,)
    names["k"] = 3
    yield MISS
    names["unrelated"] = 1
    yield HIT
    names["k"] = 2
    yield HIT


@scenario
def global_rebound_to_another_type() -> Steps:
    names = namespace(k=2)
    yield function("def f(x): return x * k", names), (X,)
    names["k"] = 2.0
    yield MISS
    names["k"] = True
    yield MISS


@scenario
def global_function_rebound() -> Steps:
    names = namespace(h=lambda x: x + 1)
    yield function("def f(x): return h(x) * 2", names), (X,)
    names["h"] = lambda x: x - 1
    yield MISS
    names["h"] = torch.sin
    yield MISS


@scenario
def global_deleted() -> Steps:
    names = namespace(k=2)
    yield function("def f(x): return x * k", names), (X,)
    del names["k"]
    yield ANY
    names["k"] = 2
    yield HIT


@scenario
def builtin_shadowed_by_a_global() -> Steps:
    names = namespace()
    yield function("def f(x, l): return x * len(l)", names), (X, [1, 2])
    names["len"] = lambda values: 10
    yield MISS
    del names["len"]
    yield HIT


@scenario
def builtin_replaced() -> Steps:
    names = namespace()
    yield function("def f(x, l): return x * abs(l)", names), (X, -3)
    real = builtins.abs
    try:
        builtins.abs = lambda value: 10
        yield MISS
    finally:
        builtins.abs = real
    yield HIT


@scenario
def code_replaced() -> Steps:
    def f(x: Any) -> Any:
        return x + 1

    def other(x: Any) -> Any:
        return x * 5

    yield f, (X,)
    f.__code__ = other.__code__
    yield MISS


@scenario
def code_of_a_helper_replaced() -> Steps:
    def helper(x: Any) -> Any:
        return x + 1

    def other(x: Any) -> Any:
        return x * 5

    def f(x: Any) -> Any:
        return helper(x) * 2

    yield f, (X,)
    helper.__code__ = other.__code__
    yield MISS


@scenario
def defaults_replaced() -> Steps:
    def f(x: Any, k: Any = 2, *, m: Any = 3) -> Any:
        return x * k + m

    yield f, (X,)
    f.__defaults__ = (5,)
    yield MISS
    f.__kwdefaults__ = {"m": 7}
    yield MISS
    f.__kwdefaults__["m"] = 8
    yield MISS
    f.__defaults__ = (5,)
    yield HIT
    f.__defaults__ = None
    yield ANY


@scenario
def defaults_of_a_helper_replaced() -> Steps:
    def helper(x: Any, k: Any = 2, *, m: Any = 3) -> Any:
        return x * k + m

    def f(x: Any) -> Any:
        return helper(x) * 2

    yield f, (X,)
    helper.__defaults__ = (5,)
    yield MISS
    helper.__kwdefaults__ = {"m": 7}
    yield MISS
    helper.__kwdefaults__["m"] = 8
    yield MISS
    helper.__defaults__ = None
    yield ANY


@scenario
def closure_cell_changed() -> Steps:
    k: Any = 2

    def f(x: Any) -> Any:
        return x * k

    yield f, (X,)
    k = 3
    yield MISS
    k = 2
    yield HIT
    k = torch.ones(4)
    yield MISS


@scenario
def closure_of_a_helper_changed() -> Steps:
    k = 2

    def helper(x: Any) -> Any:
        return x * k

    def f(x: Any) -> Any:
        return helper(x) + 1

    yield f, (X,)
    k = 3
    yield MISS


@scenario
def function_attribute_changed() -> Steps:
    def f(x: Any) -> Any:
        return x * f.scale

    f.scale = 2
    yield f, (X,)
    f.scale = 3
    yield MISS
    f.other = 1
    yield HIT


@scenario
def module_attribute_monkeypatched() -> Steps:
    module = types.ModuleType("soundness_module")
    module.scale = lambda x: x * 2
    yield function("def f(x): return module.scale(x)", namespace(module=module)), (X,)
    module.scale = lambda x: x * 3
    yield MISS


@scenario
def torch_function_monkeypatched() -> Steps:
    real = torch.nn.functional.relu
    yield function("def f(x): return torch.nn.functional.relu(x)", namespace()), (X,)
    try:
        torch.nn.functional.relu = lambda x, inplace=False: x * 10
        yield MISS
    finally:
        torch.nn.functional.relu = real
    yield HIT


@scenario
def imported_module_replaced() -> Steps:
    def with_scale(scale: float) -> types.ModuleType:
        module = types.ModuleType("soundness_imported")
        module.scale = scale
        return module

    sys.modules["soundness_imported"] = with_scale(2)
    try:
        yield function("def f(x):\n    import soundness_imported as m\n    return x * m.scale", namespace()), (X,)
        sys.modules["soundness_imported"] = with_scale(3)
        yield MISS
        sys.modules["soundness_imported"].scale = 4
        yield MISS
        del sys.modules["soundness_imported"]
        yield ANY
    finally:
        sys.modules.pop("soundness_imported", None)


# -- classes and objects ---------------------------------------------------------------------------------------------


def classes() -> tuple[Any, Any]:
    class Base:
        factor = 2

        def __init__(self) -> None:
            self.own = 5

        def scale(self, x: Any) -> Any:
            return x * self.factor

        @property
        def size(self) -> int:
            return 3

        @staticmethod
        def fixed(x: Any) -> Any:
            return x - 1

        @classmethod
        def made(cls, x: Any) -> Any:
            return x + cls.factor

    class Derived(Base):
        pass

    return Base, Derived


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
def operator_replaced() -> Steps:
    class Number:
        def __add__(self, other: Any) -> Any:
            return other + 1

        def __len__(self) -> int:
            return 2

        def __call__(self, x: Any) -> Any:
            return x * 2

    yield (lambda n, x: n(n + x) * len(n)), (Number(), X)
    Number.__add__ = lambda self, other: other + 5
    yield MISS
    Number.__len__ = lambda self: 7
    yield MISS
    Number.__call__ = lambda self, x: x * 9
    yield MISS


@scenario
def callable_added() -> Steps:
    class Thing:
        pass

    yield (lambda n, x: x + 1 if callable(n) else x - 1), (Thing(), X)
    Thing.__call__ = lambda self: 0
    yield MISS


@scenario
def hasattr_and_getattr_default() -> Steps:
    class Thing:
        pass

    thing = Thing()
    yield (lambda n, x: (x + 1 if hasattr(n, "a") else x - 1) * getattr(n, "b", 2)), (thing, X)
    thing.a = 1
    yield MISS
    Thing.b = 5
    yield MISS


@scenario
def iterator_protocol_replaced() -> Steps:
    class Thing:
        def __iter__(self) -> Any:
            return iter([1, 2])

        def __contains__(self, item: Any) -> bool:
            return False

        def __getitem__(self, key: Any) -> Any:
            return 3

    yield (lambda n, x: x * sum(list(n)) + (1 if 9 in n else n[0])), (Thing(), X)
    Thing.__iter__ = lambda self: iter([5])
    yield MISS
    Thing.__contains__ = lambda self, item: True
    yield MISS


@scenario
def equality_replaced() -> Steps:
    class Thing:
        pass

    one, two = Thing(), Thing()
    yield (lambda a, b, x: x + 1 if a == b else x - 1), (one, two, X)
    Thing.__eq__ = lambda self, other: True
    yield MISS


@scenario
def context_manager_replaced() -> Steps:
    class Scope:
        def __enter__(self) -> int:
            return 2

        def __exit__(self, *error: Any) -> None:
            pass

    def f(scope: Any, x: Any) -> Any:
        with scope as n:
            return x * n

    yield f, (Scope(), X)
    Scope.__enter__ = lambda self: 7
    yield MISS


@scenario
def super_sees_a_changed_base() -> Steps:
    class Base:
        def run(self, x: Any) -> Any:
            return x + 1

    class Derived(Base):
        def run(self, x: Any) -> Any:
            return super().run(x) * 2

    yield (lambda a, x: a.run(x)), (Derived(), X)
    Base.run = lambda self, x: x - 5
    yield MISS


@scenario
def constructor_replaced() -> Steps:
    class Thing:
        def __init__(self, n: int) -> None:
            self.n = n

    yield (lambda x: x * Thing(2).n), (X,)

    def init(self: Any, n: int) -> None:
        self.n = n + 1

    Thing.__init__ = init
    yield MISS
    Thing.n = property(lambda self: 9, lambda self, value: None)
    yield MISS


@scenario
def metaclass_attribute_over_class_attribute() -> Steps:
    class Meta(type):
        pass

    class Thing(metaclass=Meta):
        factor = 2

    yield (lambda x: x * Thing.factor), (X,)
    Meta.factor = property(lambda cls: 7)
    yield ANY


@scenario
def setattr_replaced() -> Steps:
    class Thing:
        pass

    def f(t: Any, x: Any) -> Any:
        t.n = 4
        return x * t.n

    thing = Thing()
    yield f, lambda: (Thing(), X)

    def doubled(self: Any, name: str, value: Any) -> None:
        object.__setattr__(self, name, value * 2)

    Thing.__setattr__ = doubled
    yield MISS, (thing, X)


@scenario
def bases_swapped_under_isinstance() -> Steps:
    base, derived = classes()

    class Other:
        pass

    yield (lambda a, x: x + 1 if isinstance(a, base) else x - 1), (derived(), X)
    derived.__bases__ = (Other,)
    yield MISS


@scenario(gap="registrations with abstract classes are not guarded")
def registered_with_an_abstract_class_later() -> Steps:
    class Abstract(abc.ABC):  # noqa: B024
        pass

    class Thing:
        pass

    yield (lambda a, x: x + 1 if isinstance(a, Abstract) else x - 1), (Thing(), X)
    Abstract.register(Thing)
    yield ANY


@scenario(gap="registrations with abstract classes are not guarded")
def registered_with_a_standard_abstract_class_later() -> Steps:
    class Thing:
        pass

    yield (lambda a, x: x + 1 if isinstance(a, collections.abc.Sized) else x - 1), (Thing(), X)
    Thing.__len__ = lambda self: 3
    yield ANY
    collections.abc.Sized.register(Thing)
    yield ANY


@scenario
def instance_check_added_to_a_metaclass() -> Steps:
    class Meta(type):
        pass

    class Thing(metaclass=Meta):
        pass

    yield (lambda a, x: x + 1 if isinstance(a, Thing) else x - 1), (3, X)
    Meta.__instancecheck__ = lambda cls, obj: True
    yield ANY


@scenario(breaks=True)
def builtins_of_a_helper() -> Steps:
    names = namespace(__builtins__={"len": lambda values: 10})
    helper = function("def f(x, l): return x * len(l)", names)
    yield (lambda x, values: helper(x + 1, values)), (X, [1])
    names["__builtins__"]["len"] = lambda values: 20
    yield ANY


@scenario
def mutable_default() -> Steps:
    def f(x: Any, seen: Any = []) -> Any:  # noqa: B006
        return x * len(seen)

    yield f, (X,)
    f.__defaults__[0].append(1)
    yield MISS


@scenario(breaks=True)
def an_iterator_of_the_outside() -> Steps:
    yield (lambda make, x: x * next(make)), lambda: (iter([3, 4]), X)
    yield ANY, lambda: (iter([5, 4]), X)

    def advanced() -> Any:
        iterator = iter([3, 4])
        next(iterator)
        return iterator, X

    yield ANY, advanced


@scenario(breaks=True)
def a_generator_of_the_outside() -> Steps:
    yield (lambda make, x: (x * 2) * next(make)), lambda: ((i for i in [3, 4]), X)
    yield ANY, lambda: ((i for i in [5, 4]), X)


@scenario
def descriptor_replaced() -> Steps:
    class Constant:
        def __init__(self, n: int) -> None:
            self.n = n

        def __get__(self, instance: Any, owner: Any) -> int:
            return self.n

    class Thing:
        n = Constant(2)

    yield (lambda a, x: x * a.n), (Thing(), X)
    Thing.__dict__["n"].n = 3
    yield MISS
    Constant.__set__ = lambda self, instance, value: None
    yield ANY
    thing = Thing()
    thing.__dict__["n"] = 50
    yield ANY, (thing, X)
    del Constant.__set__
    yield ANY, (thing, X)


@scenario
def partial_changed() -> Steps:
    partial = functools.partial(lambda x, k: x * k, k=2)
    yield (lambda p, x: p(x)), (partial, X)
    yield ANY, (functools.partial(lambda x, k: x * k, k=3), X)
    partial.keywords["k"] = 5
    yield ANY, (partial, X)


@scenario
def super_class_of_cell() -> Steps:
    class Base:
        def run(self, x: Any) -> Any:
            return x + 1

    class Other(Base):
        def run(self, x: Any) -> Any:
            return x + 2

    class Derived(Base):
        def run(self, x: Any) -> Any:
            return super().run(x) * 2

    yield (lambda a, x: a.run(x)), (Derived(), X)
    Derived.__bases__ = (Other,)
    yield MISS


@scenario(breaks=True)
def reversed_added() -> Steps:
    class Thing:
        def __len__(self) -> int:
            return 2

        def __getitem__(self, index: int) -> int:
            return index + 1

    def f(t: Any, x: Any) -> Any:
        y = x + 1
        for item in reversed(t):
            y = y * 2 + item
        return y

    yield f, (Thing(), X)
    Thing.__reversed__ = lambda self: iter([10])
    yield ANY


@scenario(breaks=True)
def text_of_an_object() -> Steps:
    class Thing:
        def __repr__(self) -> str:
            return "abc"

    yield (lambda t, x: (x * 2) * len(f"{t}")), (Thing(), X)
    Thing.__str__ = lambda self: "z"
    yield ANY
    Thing.__format__ = lambda self, spec: "long text"
    yield ANY


@scenario
def named_tuple_methods() -> Steps:
    class Pair(collections.namedtuple("Pair", "a b")):
        pass

    yield (lambda t, x: x * t[0] + len(t) + sum(t) + (1 if t == (1, 2) else 0)), (Pair(1, 2), X)
    Pair.__getitem__ = lambda self, index: 50
    yield ANY
    Pair.__len__ = lambda self: 20
    yield ANY
    Pair.__iter__ = lambda self: iter([7])
    yield ANY
    Pair.__eq__ = lambda self, other: False
    yield ANY
    Pair.a = 70
    yield ANY


@scenario
def tuple_subclass_truth() -> Steps:
    class Pair(collections.namedtuple("Pair", "a b")):
        pass

    yield (lambda t, x: x * t.a + (1 if t else 0)), (Pair(1, 2), X)
    Pair.__bool__ = lambda self: False
    yield ANY
    Pair.a = property(lambda self: 9)
    yield ANY


@scenario(breaks=True)
def list_subclass_methods() -> Steps:
    class Values(list[int]):
        pass

    values = Values([1, 2])
    yield (lambda t, x: (x + 1) * t[0] + len(t) + sum(t)), (values, X)
    Values.__getitem__ = lambda self, index: 50
    yield ANY
    Values.__iter__ = lambda self: iter([7])
    yield ANY
    values.append(3)
    yield ANY


@scenario(breaks=True)
def dict_subclass_methods() -> Steps:
    class Table(dict[str, int]):
        pass

    table = Table(a=1)
    yield (lambda t, x: (x + 1) * t["a"] + t.get("b", 3) + len(t)), (table, X)
    Table.__missing__ = lambda self, key: 5
    yield ANY
    Table.get = lambda self, key, default: 6
    yield ANY
    Table.__getitem__ = lambda self, key: 7
    yield ANY
    table["b"] = 1
    yield ANY


@scenario(breaks=True)
def enum_lookup() -> Steps:
    class Mode(enum.Enum):
        UP = 1
        DOWN = 2

        @property
        def factor(self) -> int:
            return self.value * 10

    yield (lambda m, x: (x + 1) * m.factor + len(m.name)), (Mode.UP, X)
    yield ANY, (Mode.DOWN, X)
    Mode.factor = property(lambda self: 5)
    yield ANY, (Mode.UP, X)


@scenario(breaks=True)
def dataclass_methods() -> Steps:
    @dataclasses.dataclass
    class Config:
        scale: float = 2.0

        def __post_init__(self) -> None:
            self.twice = self.scale * 2

    yield (lambda x: x * Config(3.0).twice + (1 if Config() == Config() else 0)), (X,)
    Config.__post_init__ = lambda self: setattr(self, "twice", 9)
    yield ANY
    Config.__eq__ = lambda self, other: False
    yield ANY
    yield ANY


@scenario(breaks=True)
def dataclass_default_changed() -> Steps:
    @dataclasses.dataclass
    class Config:
        scale: float = 2.0

    yield (lambda x: (x + 1) * Config().scale), (X,)
    Config.__init__.__defaults__ = (5.0,)
    yield ANY


@scenario
def instance_of_a_class_with_a_finalizer() -> Steps:
    class Thing:
        def __init__(self, n: int) -> None:
            self.n = n

    gone: list[int] = []
    yield (lambda x: x * Thing(2).n), (X,)
    Thing.__del__ = lambda self: gone.append(self.n)
    yield ANY
    assert gone == [2, 2]


@scenario
def truth_added() -> Steps:
    class Thing:
        pass

    yield (lambda n, x: x + 1 if n else x - 1), (Thing(), X)
    Thing.__len__ = lambda self: 0
    yield MISS
    Thing.__bool__ = lambda self: True
    yield MISS


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


# -- containers ------------------------------------------------------------------------------------------------------


@scenario
def list_changed() -> Steps:
    values: list[Any] = [1, 2, [3]]
    yield (lambda values, x: x * values[0] + values[2][0]), (values, X)
    values[0] = 5
    yield MISS
    values[2].insert(0, 9)
    yield MISS
    values[1] = "not looked at"
    yield HIT


@scenario
def list_grown() -> Steps:
    values = [1, 2]
    yield (lambda values, x: x * sum(values)), (values, X)
    values.append(3)
    yield MISS
    values.pop()
    yield HIT


@scenario
def list_replaced_by_tuple_and_back() -> Steps:
    yield (lambda values, x: x * values[0]), ([2], X)
    yield MISS, ((2,), X)
    yield HIT, ([2], X)


@scenario
def dict_changed() -> Steps:
    table: dict[str, Any] = {"a": 1, "b": {"c": 2}}
    yield (lambda d, x: x * d["a"] + d["b"]["c"]), (table, X)
    table["a"] = 4
    yield MISS
    table["b"]["c"] = 7
    yield MISS
    table["z"] = 0
    yield HIT
    table["b"] = {"c": 7}
    yield HIT
    del table["a"]
    yield ANY


@scenario
def dict_membership_and_get() -> Steps:
    table: dict[str, Any] = {}
    yield (lambda d, x: x + 1 if "k" in d else x * d.get("m", 3)), (table, X)
    table["m"] = 5
    yield MISS
    table["k"] = 1
    yield MISS


@scenario
def dict_order() -> Steps:
    def f(d: dict[str, int], x: Any) -> Any:
        for value in d.values():
            x = x * 2 + value
        return x

    yield f, ({"a": 1, "b": 2}, X)
    yield MISS, ({"b": 2, "a": 1}, X)
    yield HIT, ({"a": 1, "b": 2}, X)


@scenario
def dict_length() -> Steps:
    table = {"a": 1}
    yield (lambda d, x: x * len(d)), (table, X)
    table["b"] = 1
    yield MISS


@scenario
def ordered_dict() -> Steps:
    table = collections.OrderedDict(a=1, b=2)
    yield (lambda d, x: x * list(d.values())[0]), (table, X)
    table.move_to_end("a")
    yield MISS


@scenario
def set_changed() -> Steps:
    values = {1, 2}
    yield (lambda s, x: x + 1 if 3 in s else x - 1), (values, X)
    values.add(3)
    yield MISS
    values.discard(3)
    yield HIT


@scenario
def tuple_of_other_values() -> Steps:
    yield (lambda t, x: x * t[0] + t[1][0]), ((1, [2]), X)
    yield MISS, ((1, [3]), X)
    yield MISS, ((2, [3]), X)
    yield HIT, ((1, [2]), X)


@scenario
def named_tuple() -> Steps:
    pair = collections.namedtuple("pair", "a b")
    yield (lambda t, x: x * t.a), (pair(1, 2), X)
    yield MISS, (pair(3, 2), X)


@scenario
def same_object_twice() -> Steps:
    one, two = [1], [1]
    yield (lambda a, b, x: x + 1 if a is b else x - 1), (one, two, X)
    yield MISS, (one, one, X)
    yield HIT, (two, one, X)


@scenario
def changed_object_that_is_another_argument_too() -> Steps:
    def f(a: list[int], b: list[int], x: Any) -> Any:
        a.append(1)
        return x * len(b)

    yield f, lambda: ([], [], X)

    def twice() -> Any:
        one: list[int] = []
        return one, one, X

    yield MISS, twice
    yield HIT, lambda: ([], [], X)


@scenario
def scalars() -> Steps:
    def f(n: Any, x: Any) -> Any:
        return x + 1 if n < 3 else x - 1

    yield f, (1, X)
    yield HIT, (2, X)
    yield MISS, (3, X)
    yield ANY, (1.5, X)
    yield ANY, (True, X)


@scenario
def floats_by_their_bits() -> Steps:
    yield (lambda s, x: x * s), (0.0, X)
    yield ANY, (-0.0, X)
    yield ANY, (float("nan"), X)
    yield ANY, (0, X)


@scenario
def range_and_slice_arguments() -> Steps:
    yield (lambda r, x: x * len(r)), (range(3), X)
    yield MISS, (range(4), X)
    yield HIT, (range(3), X)


@scenario
def callable_argument() -> Steps:
    yield (lambda g, x: g(x) + 1), (torch.sin, X)
    yield MISS, (torch.cos, X)
    yield MISS, ((lambda x: x * 2), X)
    yield HIT, (torch.sin, X)


@scenario
def class_argument() -> Steps:
    base, derived = classes()
    yield (lambda cls, x: cls().scale(x)), (base, X)
    derived.factor = 8
    yield MISS, (derived, X)
    base.factor = 4
    yield MISS, (base, X)


@scenario
def bound_method_argument() -> Steps:
    base, _ = classes()
    a, b = base(), base()
    b.factor = 9
    yield (lambda m, x: m(x)), (a.scale, X)
    yield MISS, (b.scale, X)
    yield HIT, (base().scale, X)


@scenario.parametrize()
def test_change_is_seen(steps: Any, breaks: bool) -> None:
    play(steps, breaks)
