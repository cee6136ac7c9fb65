"""Whatever a program reads is changed, one thing after the other, and changed back: each time it does as Python does.

Nothing here says which guards there are. `changes` walks all that can be reached from a world of objects, classes,
functions and modules, and has something to change about everything it meets.
"""

from __future__ import annotations

import collections
import dataclasses
import enum
import functools
import types
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
import torch

import framelift
from framelift import config

NUMBER = 3
TABLE = {"number": 2, "list": [1, 2, 3], "pair": (1, 2)}


class Base:
    scale = 2

    def forward(self, x):
        return x * self.scale


class Layer(Base):
    bias = 1

    def forward(self, x):
        return super().forward(x) + self.bias + self.extra()

    def extra(self):
        return 3

    @property
    def doubled(self):
        return self.scale * 2

    @classmethod
    def of_class(cls):
        return cls.bias

    @staticmethod
    def of_nobody(a, b=2, *, c=3):
        return a + b + c


class OtherLayer(Base):
    bias = 5
    doubled = 4

    def extra(self):
        return 7

    @classmethod
    def of_class(cls):
        return 9

    @staticmethod
    def of_nobody(a):
        return a


@dataclasses.dataclass
class Config:
    size: int = 2
    name: str = "relu"
    dims: tuple = (1, 2)
    options: dict = dataclasses.field(default_factory=lambda: {"a": 1, "b": [1, 2]})


class Color(enum.Enum):
    RED = 1
    GREEN = 2


class Slots:
    __slots__ = ("a", "b")

    def __init__(self):
        self.a, self.b = 1, [1]


class Answers:
    def __init__(self):
        self.known = 1

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return len(name)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(2, 2)
        self.inner = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
        self.several = torch.nn.ModuleList([torch.nn.Identity()])
        self.register_buffer("buffer", torch.ones(2))
        self.flag = True

    def forward(self, x):
        x = self.linear(x) + self.buffer
        for module in self.several:
            x = module(x)
        if self.flag:
            x = self.inner(x)
        return x + 1 if self.training else x


def helper(a, b=1, *rest, c=2, **named):
    return a + b + c


def closure():
    number, listed = 4, [1]

    def inner(x):
        return x + number + len(listed)

    return inner


Pair = collections.namedtuple("Pair", "a b")


class World:
    def __init__(self):
        torch.manual_seed(0)
        self.layer, self.config, self.color, self.slots = Layer(), Config(), Color.RED, Slots()
        self.answers, self.net, self.tensor = Answers(), Net().eval(), torch.ones(2)
        self.parameter = torch.nn.Parameter(torch.ones(2))
        self.list, self.dict, self.set, self.frozen = [1, 2, [3]], {"x": 1, "y": {"z": 2}}, {1, 2}, frozenset([1])
        self.deque, self.ordered = collections.deque([1, 2]), collections.OrderedDict(a=1, b=2)
        self.default, self.space = collections.defaultdict(int, q=1), types.SimpleNamespace(a=1, b="s")
        self.inner, self.method, self.partial = closure(), self.layer.forward, functools.partial(helper, b=3)
        self.float, self.text, self.bool, self.none, self.pair = 1.5, "abc", True, None, Pair(1, 2)
        self.range, self.bytes, self.cls = range(3), b"ab", Layer


# -- programs ----------------------------------------------------------------------------------------------------------


def classes(w, x):
    layer = w.layer
    return layer.forward(x), layer.doubled, layer.of_class(), layer.of_nobody(1), w.cls.bias, w.cls().scale


def settings(w, x):
    x = x * w.config.size
    if w.config.name == "relu":
        x = x.relu()
    for dim in w.config.dims:
        x = x + dim
    for key, value in w.config.options.items():
        x = x + len(key) + (value if isinstance(value, int) else sum(value))
    return x


def containers(w, x):
    for item in w.list:
        x = x + (item if isinstance(item, int) else len(item))
    x = x + w.dict["x"] + w.dict["y"]["z"] + len(w.dict)
    return x, sorted(w.set), 1 in w.set, len(w.frozen), [*w.deque], [*w.ordered.items()], w.default["q"], w.space.a


def constants(w, x):
    shown = f"{w.text}-{w.bool}", str(w.float), w.text.upper()
    return x * w.float + len(w.text), shown, w.none is None, w.pair.a, w.pair[1], [*w.range], w.bytes[0]


def functions(w, x):
    return w.inner(x), w.method(x), w.partial(1), helper(1), x + NUMBER, TABLE["number"], [*TABLE["list"]], len(TABLE)


def tensors(w, x):
    t = w.tensor
    return w.net(x), t + x, w.parameter * 2, t.shape, t.dtype, t.requires_grad, t.is_contiguous()


def oddities(w, x):
    asked = w.answers.foo, w.answers.known, hasattr(w.answers, "zz"), getattr(w, "nope", 3)
    color = w.color is Color.RED, w.color.value, w.color.name
    return x + w.slots.a, w.slots.b, asked, color, isinstance(w.layer, Base), type(w.layer).__name__, len(vars(w))


def patterns(w, x):
    match w.config:
        case Config(size=2, name=name):
            x = x + len(name)
        case Config():
            x = x - 1
    match w.list, w.dict:
        case [1, *rest], {"x": value}:
            x = x + len(rest) + value
    return x


def comparisons(w, x):
    equal = w.config == Config(), w.list == [1, 2, [3]], w.dict == {"x": 1}, w.pair == (1, 2), w.set == {1, 2}
    return x + 1, equal, w.text < "b", w.ordered == {"a": 1, "b": 2}, bool(w.list), not w.dict, w.color == Color.GREEN


def spread(w, x):
    made = [*w.list], {**w.dict}, (*w.deque,), [*zip(w.deque, w.pair, strict=False)], [*enumerate(w.text)]
    return helper(*w.config.dims), helper(1, **{"b": w.config.size}), made, x.reshape(*w.tensor.shape), max(w.list[:2])


PROGRAMS = [
    classes,
    settings,
    containers,
    constants,
    functions,
    tensors,
    oddities,
    patterns,
    comparisons,
    spread,
]

# -- changes -----------------------------------------------------------------------------------------------------------


class Change(NamedTuple):
    words: str
    make: Callable[[], Any]
    take_back: Callable[[], Any]


# What else may stand in the place of an object, by its type.
OTHERS: dict[type, Callable[[Any], list[Any]]] = {
    bool: lambda it: [not it, 1, None],
    int: lambda it: [it + 1, float(it), 10**20, "s", None, True, -it, 0],
    float: lambda it: [it + 1, int(it), -0.0, float("inf")],
    str: lambda it: [it + "q", "", 3, None],
    type(None): lambda it: [1, "a"],
    tuple: lambda it: [(*it, 5), it[:-1], list(it), ()],
    list: lambda it: [[*it, 5], tuple(it), []],
    dict: lambda it: [{**it, "new": 1}, dict(reversed(it.items())), {}],
    set: lambda it: [it | {9}, set(), frozenset(it)],
    frozenset: lambda it: [it | {9}],
    collections.deque: lambda it: [collections.deque([*it, 5]), collections.deque(it, 1)],
    range: lambda it: [range(4), range(1, 3)],
    bytes: lambda it: [b"zz"],
    torch.nn.Parameter: lambda it: [torch.nn.Parameter(it.detach() + 1), it.detach().clone()],
    torch.Tensor: lambda it: [it + 1, it.double(), torch.ones(1), torch.ones(3, 2), torch.ones(4)[::2]],
    Color: lambda it: [Color.GREEN, 1],
    types.FunctionType: lambda it: [lambda *args, **kwargs: 11],
    types.MethodType: lambda it: [types.MethodType(lambda self, x: x, it.__self__)],
    functools.partial: lambda it: [functools.partial(helper, b=4), functools.partial(helper, c=9)],
    type: lambda it: [OtherLayer],
    Pair: lambda it: [it._replace(a=9), tuple(it)],
    Layer: lambda it: [OtherLayer(), Layer()],
    Config: lambda it: [Config(size=3), types.SimpleNamespace(size=2, name="relu", dims=(1,), options={})],
}
# What is added to classes and to objects.
LATER = {
    "__getattr__": lambda self, name: 21,
    "__bool__": lambda self: False,
    "foo": 5,
    "known": property(lambda s: 31),
}
LATER_ON_OBJECTS = {"foo": 6, "zz": 1, "forward": lambda x: x, "scale": 55, "doubled": 57, "nope": 58}


calling = functools.partial


def setting(owner: Any, name: str, value: Any) -> Callable[[], Any]:
    return lambda: setattr(owner, name, value)


def deleting(owner: Any, name: str) -> Callable[[], Any]:
    return lambda: delattr(owner, name)


def others(obj: Any) -> list[Any]:
    found = OTHERS.get(type(obj))
    return [] if found is None else found(obj)


def attribute(owner: Any, name: str, new: Any) -> Change:
    own = vars(owner)
    back = setting(owner, name, own[name]) if name in own else deleting(owner, name)
    return Change(f"{type(owner).__name__}.{name} = {new!r}", setting(owner, name, new), back)


def of_dict(obj: dict) -> Iterator[Change]:
    before = [*obj.items()]

    def back():
        obj.clear()
        obj.update(before)

    for key, value in before:
        yield Change(f"del {key!r}", calling(obj.pop, key), back)
        for other in others(value):
            yield Change(f"[{key!r}] = {other!r}", calling(obj.__setitem__, key, other), back)
    yield Change("a new key", calling(obj.__setitem__, "zz9", 4), back)

    def turn_round():
        obj.clear()
        obj.update(reversed(before))

    yield Change("another order", turn_round, back)


def of_sequence(obj: Any) -> Iterator[Change]:
    before = [*obj]

    def back():
        obj.clear()
        obj.extend(before)

    yield Change("one more", calling(obj.append, 8), back)
    yield Change("one less", obj.pop, back)
    yield Change("turned round", obj.reverse, back)
    for position, value in enumerate(before):
        for other in others(value):
            yield Change(f"[{position}] = {other!r}", calling(obj.__setitem__, position, other), back)


def of_set(obj: set) -> Iterator[Change]:
    yield Change("one more", calling(obj.add, 77), calling(obj.discard, 77))
    yield Change("empty", obj.clear, calling(obj.update, set(obj)))


def of_function(obj: types.FunctionType) -> Iterator[Change]:
    for name in ("__defaults__", "__kwdefaults__"):
        given = getattr(obj, name)
        if given:
            changed = tuple(n + 1 for n in given) if type(given) is tuple else {key: n + 1 for key, n in given.items()}
            yield Change(name, setting(obj, name, changed), setting(obj, name, given))
    if not obj.__closure__:
        code = (lambda *args, **kwargs: 13).__code__
        back = setting(obj, "__code__", obj.__code__)
        yield Change("__code__", setting(obj, "__code__", code), back)
    for cell in obj.__closure__ or ():
        for other in others(cell.cell_contents):
            back = setting(cell, "cell_contents", cell.cell_contents)
            yield Change(f"a cell: {other!r}", setting(cell, "cell_contents", other), back)


def of_class(obj: type) -> Iterator[Change]:
    for name, value in [*vars(obj).items()]:
        if not name.startswith("__") and not isinstance(obj, enum.EnumMeta):
            back = setting(obj, name, value)
            yield Change(f"del {obj.__name__}.{name}", deleting(obj, name), back)
            for other in others(value) or [5]:
                yield attribute(obj, name, other)
    for name, value in LATER.items():
        if name not in vars(obj):
            yield attribute(obj, name, value)


def of_module(obj: torch.nn.Module) -> Iterator[Change]:
    yield Change("train()", obj.train, obj.eval)
    hooks: list[Any] = []
    for register, hook in (
        (obj.register_forward_hook, lambda module, args, result: result * 2),
        (obj.register_forward_pre_hook, lambda module, args: (args[0] + 1,)),
    ):
        make = functools.partial(lambda register, hook: hooks.append(register(hook)), register, hook)
        yield Change(register.__name__, make, lambda: hooks.pop().remove())
    yield attribute(obj, "forward", lambda x: x)
    for name, child in [*obj.named_children()]:
        back = setting(obj, name, child)
        yield Change(f"another {name}", setting(obj, name, torch.nn.Identity()), back)
    for tensor in [*obj.parameters(recurse=False), *obj.buffers(recurse=False)]:
        yield from of_tensor(tensor)


def of_tensor(obj: torch.Tensor) -> Iterator[Change]:
    yield Change("add_()", lambda: obj.data.add_(1), lambda: obj.data.sub_(1))

    def switch():
        obj.requires_grad_(not obj.requires_grad)

    yield Change("requires_grad", switch, switch)


def of_object(obj: Any) -> Iterator[Change]:
    for name, value in [*vars(obj).items()]:
        yield Change(f"del .{name}", deleting(obj, name), setting(obj, name, value))
        for other in others(value):
            yield attribute(obj, name, other)
    for name, value in LATER_ON_OBJECTS.items():
        if name not in vars(obj) and not hasattr(type(obj), name):
            yield attribute(obj, name, value)
    other = dict(vars(obj), size=9, known=9)
    yield Change("__dict__", setting(obj, "__dict__", other), _with_dict(obj))


def _with_dict(obj: Any) -> Callable[[], Any]:
    return setting(obj, "__dict__", vars(obj))


def of_layer(obj: Layer) -> Iterator[Change]:
    yield Change(
        "another class", lambda: setattr(obj, "__class__", OtherLayer), lambda: setattr(obj, "__class__", Layer)
    )
    yield from of_object(obj)


def of_slots(obj: Slots) -> Iterator[Change]:
    for name in ("a", "b"):
        back = setting(obj, name, getattr(obj, name))
        yield Change(f"del .{name}", deleting(obj, name), back)
        for other in others(getattr(obj, name)):
            yield Change(f".{name} = {other!r}", setting(obj, name, other), back)


def of_process() -> Iterator[Change]:
    globals_ = globals()
    for name, other in (("NUMBER", 4), ("NUMBER", "s"), ("helper", lambda *a, **k: 77), ("Config", OtherLayer)):
        back = calling(globals_.__setitem__, name, globals_[name])
        yield Change(f"global {name}", calling(globals_.__setitem__, name, other), back)
    yield Change("a len of its own", lambda: globals_.update(len=lambda obj: 99), lambda: globals_.pop("len"))
    for name, off, on in (
        ("grad mode", lambda: torch.set_grad_enabled(False), lambda: torch.set_grad_enabled(True)),
        ("default dtype", lambda: torch.set_default_dtype(torch.double), lambda: torch.set_default_dtype(torch.float)),
    ):
        yield Change(name, off, on)


CHANGES: dict[type, Callable[[Any], Iterator[Change]]] = {
    list: of_sequence,
    collections.deque: of_sequence,
    dict: of_dict,
    collections.OrderedDict: of_dict,
    collections.defaultdict: of_dict,
    set: of_set,
    types.FunctionType: of_function,
    torch.Tensor: of_tensor,
    torch.nn.Parameter: of_tensor,
    Layer: of_layer,
    Slots: of_slots,
    Config: of_object,
    Answers: of_object,
    types.SimpleNamespace: lambda obj: of_dict(vars(obj)),
    World: of_object,
}


def parts(obj: Any) -> list[Any]:
    """What can be reached from an object in one step."""
    if isinstance(obj, torch.nn.Module):
        return [*obj.children()]
    if isinstance(obj, dict):
        return [*obj.values()]
    if isinstance(obj, list | tuple):
        return [*obj]
    if isinstance(obj, types.FunctionType):
        return [cell.cell_contents for cell in obj.__closure__ or ()]
    return [*vars(obj).values()] if hasattr(obj, "__dict__") and not isinstance(obj, enum.Enum) else []


def changes(world: World) -> Iterator[Change]:
    seen: set[int] = set()
    pending: list[Any] = [world, TABLE, helper]
    while pending:
        obj = pending.pop()
        if id(obj) in seen or isinstance(obj, type):
            continue
        seen.add(id(obj))
        kind = of_module if isinstance(obj, torch.nn.Module) else CHANGES.get(type(obj), lambda it: iter(()))
        yield from kind(obj)
        pending += parts(obj)
    for cls in (Layer, Base, Config, Answers, Color):
        yield from of_class(cls)
    yield from of_process()


# -- what is compared --------------------------------------------------------------------------------------------------


def shown(result: Any) -> Any:
    if isinstance(result, torch.Tensor):
        return result.dtype, result.tolist(), result.requires_grad, result.stride()
    if isinstance(result, dict):
        return type(result), [(key, shown(value)) for key, value in result.items()]
    if isinstance(result, list | tuple):
        return type(result), [shown(item) for item in result]
    return type(result), repr(result)


def outcome(function: Callable[..., Any], world: World) -> Any:
    try:
        return shown(function(world, torch.ones(2)))
    except Exception as error:  # noqa: BLE001  (whatever it is, it is to be the same)
        return type(error), str(error)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_every_change_is_seen(program):
    world, made = World(), 0
    with config.patch(recompile_limit=100_000, total_recompile_limit=100_000):
        lifted = framelift.compile(program, backend="eager")
        as_it_was = outcome(program, world)
        assert outcome(lifted, world) == as_it_was
        for change in changes(world):
            change.make()
            try:
                expected = outcome(program, world)
                assert [outcome(lifted, world), outcome(lifted, world)] == [expected] * 2, change.words
            finally:
                change.take_back()
            made += 1
        assert outcome(lifted, world) == outcome(program, world) == as_it_was
    assert made > 400
