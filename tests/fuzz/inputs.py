"""The arguments of random programs, and what changes between two calls of one: arguments, classes, functions, torch."""

from __future__ import annotations

import collections
import contextlib
import copy
import functools
import random
from collections.abc import Callable, Iterator
from typing import Any

import torch

ARGUMENTS = "x y n word ints tensors table thing other view index net queue stream act record grid".split()


class Inputs:
    """The arguments of a program. Equal seeds give equal arguments, grown by so many rows."""

    def __init__(self, module: Any, seed: int, growth: int = 0) -> None:
        chosen = random.Random(seed)
        generator = torch.Generator().manual_seed(seed)
        self.module = module
        self.x = torch.randint(-3, 4, (2 + growth, 3), generator=generator).float()
        self.y = torch.randint(-3, 4, (2 + growth, 3), generator=generator).float()
        self.n = chosen.randint(0, 4) + growth
        self.word = chosen.choice(["ab", "a", "k"])
        self.ints = [chosen.randint(-1, 4) for _ in range(chosen.randint(0, 4))]
        self.tensors = [self.x + i for i in range(chosen.randint(0, 2))]
        self.table = {key: chosen.randint(0, 3) for key in chosen.sample(["a", "b", "k"], chosen.randint(0, 3))}
        self.thing = module.Thing(chosen.randint(0, 3), list(self.ints), self.x + 2)
        self.other = module.Thing(self.thing.count, list(self.ints), self.x + 2)
        self.view = self.x[0]
        self.index = torch.tensor([0, 1])
        self.net = module.Net()
        self.queue = collections.deque(self.ints[:2])
        self.stream = iter([1, 2, 3])
        self.act = torch.relu
        self.record = module.Record(self.word, self.n, list(self.ints))
        self.net.log = list(self.ints)
        with torch.no_grad():
            self.net.inner.weight.copy_(self.y[:1])
            self.net.inner.bias.zero_()
        self.grid = (self.y * (self.x > 0)).to_sparse()
        _change(self, chosen)

    @property
    def arguments(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in ARGUMENTS)


def calls(module: Any, seed: int, count: int, growing: bool, data: bool = False) -> Iterator[tuple[Any, ...]]:
    """Arguments of further calls. Before each, one thing changes; what is no argument changes for good, or for one.

    Sizes that grow from call to call have symbolic entries made. With `data` nothing changes but what is in tensors.
    """
    chosen = random.Random(seed)
    for number in range(count):
        inputs = Inputs(module, seed, number + 1 if growing else 0)
        with contextlib.ExitStack() as during:
            if data:
                chosen.choice(DATA_CHANGES)(inputs)
            elif chosen.random() < 0.6:
                _change(inputs, chosen)
            else:
                chosen.choice(WORLD_CHANGES)(module, during)
            yield inputs.arguments


def _set(name: str, new: Callable[[Inputs], Any]) -> Callable[[Inputs], None]:
    return lambda inputs: setattr(inputs, name, new(inputs))


def _on(owner: str, name: str, new: Callable[[Inputs], Any]) -> Callable[[Inputs], None]:
    return lambda inputs: setattr(getattr(inputs, owner), name, new(inputs))


def _lay_over(storage: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return storage[:6].view(2, 3), storage[2:8].view(2, 3)


def _overlap(inputs: Inputs) -> None:
    inputs.x, inputs.y = _lay_over(torch.arange(8.0))


ARGUMENT_CHANGES: list[Callable[[Inputs], Any]] = [
    lambda inputs: inputs.x.detach().neg_(),
    _set("y", lambda inputs: inputs.x.detach()[:]),
    _overlap,
    _set("x", lambda inputs: torch.ones(3, 3)),
    _set("x", lambda inputs: inputs.x.detach().t().contiguous().t()),
    _set("x", lambda inputs: inputs.x.detach().clone().requires_grad_()),
    _set("y", lambda inputs: inputs.y.double()),
    _set("y", lambda inputs: inputs.y.long()),
    _set("n", lambda inputs: inputs.n + 1),
    _set("n", lambda inputs: float(inputs.n)),
    _set("n", lambda inputs: bool(inputs.n)),
    _set("word", lambda inputs: inputs.word + "b"),
    _set("ints", lambda inputs: [5, *inputs.ints[1:]]),
    lambda inputs: inputs.ints.append(1),
    lambda inputs: inputs.ints.clear(),
    _set("ints", lambda inputs: inputs.module.Stack(inputs.ints)),
    lambda inputs: inputs.tensors.append(inputs.x),
    lambda inputs: inputs.tensors.append(inputs.x.detach()[:]),
    lambda inputs: inputs.table.update(c=1),
    lambda inputs: inputs.table.pop("a", None),
    lambda inputs: inputs.table.update(a=7),
    _set("table", lambda inputs: dict(reversed(inputs.table.items()))),
    _set("table", lambda inputs: inputs.module.Table(inputs.table)),
    _set("table", lambda inputs: collections.OrderedDict(inputs.table)),
    _set("table", lambda inputs: collections.defaultdict(int, inputs.table)),
    lambda inputs: vars(inputs.thing).update(count=vars(inputs.thing)["count"] + 1),  # below a property
    _on("thing", "extra", lambda inputs: 5),
    _on("thing", "factor", lambda inputs: 3),
    _on("thing", "tensor", lambda inputs: inputs.y),
    _on("thing", "bump", lambda inputs: abs),
    _on("thing", "__class__", lambda inputs: inputs.module.Special),
    _on("thing", "__dict__", lambda inputs: {**vars(inputs.thing), "count": 9}),
    _set("view", lambda inputs: inputs.y.detach()[1]),
    _set("view", lambda inputs: torch.ones(3)),
    _set("index", lambda inputs: torch.tensor([5, 0])),
    _set("index", lambda inputs: torch.tensor([1, 1, 0])),
    lambda inputs: inputs.net.eval(),
    _on("net", "scale", lambda inputs: 3),
    _on("net", "inner", lambda inputs: torch.nn.Identity()),
    lambda inputs: inputs.net.requires_grad_(False),
    lambda inputs: inputs.net.register_forward_hook(inputs.module.net_hook),
    lambda inputs: inputs.net.inner.register_forward_pre_hook(inputs.module.net_pre_hook),
    lambda inputs: setattr(inputs.net.inner, "weight", torch.nn.Parameter(inputs.x.detach()[:1].expand(3, 3).clone())),
    lambda inputs: inputs.queue.append(2),
    _set("stream", lambda inputs: iter([4])),
    _set("stream", lambda inputs: iter((4, 0))),
    _set("act", lambda inputs: torch.sin),
    _set("act", lambda inputs: inputs.module.scaled),
    _set("act", lambda inputs: functools.partial(inputs.module.scaled, by=3)),
    _set("act", lambda inputs: inputs.net),
    _set("act", lambda inputs: inputs.thing.tensor.add),
    lambda inputs: inputs.record.parts.append(3),
    _set("record", lambda inputs: inputs.module.Record("b", 2.5)),
    _set("grid", lambda inputs: torch.zeros(2, 3).to_sparse()),
    _set("grid", lambda inputs: torch.eye(2, 3).to_sparse()),
    _set("grid", lambda inputs: inputs.y.detach().float().to_sparse()),
    _set("grid", lambda inputs: inputs.y.detach().clone()),
]


def _fill(inputs: Inputs, name: str, values: torch.Tensor) -> None:
    """Put values into what may be an overlap, a leaf, or of another dtype."""
    with torch.no_grad():
        for row, new in zip(getattr(inputs, name).unbind(), values.unbind(), strict=False):
            for element, value in zip(row.unbind(), new.unbind(), strict=False):
                element.fill_(value.item())


# Nothing of it is seen before the graph runs.
DATA_CHANGES: list[Callable[[Inputs], Any]] = [
    lambda inputs: _fill(inputs, "x", inputs.x.flip(1)),
    lambda inputs: _fill(inputs, "x", -inputs.x),
    lambda inputs: _fill(inputs, "x", inputs.x * 0 + 1),
    lambda inputs: _fill(inputs, "x", inputs.x - 3),
    lambda inputs: _fill(inputs, "x", inputs.x + 1),
    lambda inputs: _fill(inputs, "y", inputs.x),
    lambda inputs: _fill(inputs, "y", inputs.y * -2),
    *[
        lambda inputs, held=held: inputs.index[:2].copy_(torch.tensor(held))
        for held in ([0, 0], [1, 0], [1, 1], [0, 2], [2, 3])
    ],
]
ARGUMENT_CHANGES += DATA_CHANGES[:1] + DATA_CHANGES[-2:]

# Two places that held equal objects hold one, and the other way about: nothing else tells one call from another.
IDENTITY_CHANGES: list[Callable[[Inputs], Any]] = [
    _set("y", lambda inputs: inputs.x),
    _set("y", lambda inputs: inputs.y.detach().clone()),
    _set("ints", lambda inputs: inputs.thing.items),
    _set("ints", lambda inputs: inputs.record.parts),
    _set("ints", lambda inputs: list(inputs.ints)),
    _set("table", lambda inputs: inputs.module.registry),
    _set("other", lambda inputs: inputs.thing),
    _set("other", lambda inputs: copy.copy(inputs.thing)),
    _set("other", lambda inputs: copy.deepcopy(inputs.other)),
    _on("other", "items", lambda inputs: inputs.ints),
    _on("other", "items", lambda inputs: inputs.thing.items),
    _on("other", "tensor", lambda inputs: inputs.thing.tensor),
    _on("thing", "tensor", lambda inputs: inputs.x),
    _on("thing", "tensor", lambda inputs: inputs.thing.tensor.detach().clone()),
    _on("net", "log", lambda inputs: inputs.ints),
    _on("record", "parts", lambda inputs: inputs.thing.items),
    _on("record", "parts", lambda inputs: inputs.net.log),
    _set("record", lambda inputs: copy.deepcopy(inputs.record)),
    _set("tensors", lambda inputs: [inputs.x for _ in inputs.tensors]),
    _set("tensors", lambda inputs: [inputs.thing.tensor for _ in inputs.tensors]),
    _set("tensors", lambda inputs: [tensor.detach().clone() for tensor in inputs.tensors]),
]


def _change(inputs: Inputs, chosen: random.Random) -> None:
    chosen.choice(IDENTITY_CHANGES if chosen.random() < 0.3 else ARGUMENT_CHANGES)(inputs)


def _replacing(owner: str, name: str, new: Callable[[Any], Any]) -> Callable[[Any, Any], None]:
    """Set an attribute of something that the module holds, for good."""
    return lambda module, during: setattr(getattr(module, owner) if owner else module, name, new(module))


def _one_more(function: Callable[..., Any]) -> Callable[..., Any]:
    def other(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs) + 1

    return other


def _default_dtype(module: Any, during: contextlib.ExitStack) -> None:
    torch.set_default_dtype(torch.float64)
    during.callback(torch.set_default_dtype, torch.float32)


WORLD_CHANGES: list[Callable[[Any, contextlib.ExitStack], Any]] = [
    _replacing("Thing", "factor", lambda module: module.Thing.factor + 1),
    _replacing("Thing", "bump", lambda module: lambda self, by=2: by),
    _replacing("Thing", "extra", lambda module: 4),
    _replacing("Thing", "__len__", lambda module: lambda self: 3),
    _replacing("Thing", "level", lambda module: 2),
    _replacing("Special", "count", lambda module: property(lambda self: 6)),
    _replacing("Special", "__getattr__", lambda module: module.answer_any),
    _replacing("Point", "__eq__", lambda module: lambda self, other: True),
    _replacing("Point", "__call__", lambda module: lambda self, value, *rest: value),
    _replacing("scaled", "__defaults__", lambda module: (3,)),
    _replacing("scaled", "__kwdefaults__", lambda module: {"plus": 2}),
    _replacing("gather", "__kwdefaults__", lambda module: {"key": 1}),
    _replacing("note", "__code__", lambda module: module.negated.__code__),
    _replacing("", "shifted", lambda module: _one_more(module.shifted)),
    _replacing("", "countdown", lambda module: lambda n: iter([n, 1])),
    _replacing("", "len", lambda module: lambda values: 2),
    _replacing("Net", "forward", lambda module: lambda self, x, extra=0: x + extra),
    _replacing("Guarded", "__exit__", lambda module: lambda self, *error: True),
    _replacing("Stack", "push", lambda module: lambda self, item: 0),
    _replacing("Table", "__setitem__", lambda module: dict.__setitem__),
    _replacing("Record", "size", lambda module: 5),
    _default_dtype,
    lambda module, during: during.enter_context(torch.device("cpu")),
    lambda module, during: during.enter_context(torch.no_grad()),
    lambda module, during: during.enter_context(torch.inference_mode()),
    lambda module, during: during.enter_context(torch.autocast("cpu", dtype=torch.bfloat16)),
]
