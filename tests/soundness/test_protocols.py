"""Changes of operators, instance checks, construction and other protocols of classes are seen."""

from __future__ import annotations

import abc
import collections
import collections.abc
import dataclasses
import enum
import functools
from typing import Any

from tests.soundness.scenario import ANY, MISS, Scenarios, Steps, X, classes, function, namespace, play

scenario = Scenarios()


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


@scenario
def registered_with_an_abstract_class_later() -> Steps:
    class Abstract(abc.ABC):  # noqa: B024
        pass

    class Thing:
        pass

    yield (lambda a, x: x + 1 if isinstance(a, Abstract) else x - 1), (Thing(), X)
    Abstract.register(Thing)
    yield ANY


@scenario
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
def methods_of_an_exception_added() -> Steps:
    class Wrong(ValueError):
        pass

    def f(x: Any) -> Any:
        try:
            raise Wrong("word")
        except ValueError as error:
            return x + 1, str(error), repr(error), error == error, f"{error}", "yes" if error else "no"  # noqa: PLR0124

    yield f, (X,)
    Wrong.__str__ = lambda self: "other"
    yield MISS
    Wrong.__repr__ = lambda self: "third"
    yield MISS
    Wrong.__eq__ = lambda self, other: False
    yield MISS
    Wrong.__format__ = lambda self, spec: "fourth"
    yield MISS
    Wrong.__bool__ = lambda self: False
    yield MISS


@scenario.parametrize()
def test_change_is_seen(steps: Any, breaks: bool) -> None:
    play(steps, breaks)
