"""What shortcuts say of an operation is what fake tensors say: random layouts, dtypes and arguments, seeded."""

from __future__ import annotations

import operator
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from framelift.graph.builder import GraphBuilder
from framelift.graph.errors import MemoMismatch, MetadataFailure
from framelift.graph.propagation import shortcuts
from framelift.graph.propagation.memo import MetadataMemo

FLOATS = [torch.float32] * 4 + [torch.float64, torch.bfloat16]
DTYPES = [*FLOATS, torch.int64, torch.bool, torch.complex64]
CASES_PER_TARGET = 25


class Arguments:
    """Random arguments, most of them good ones."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def tensor(self, shape: list[int] | None = None, dtype: torch.dtype | None = None) -> torch.Tensor:
        draw = self.random
        if shape is None:
            shape = [draw.choice([0, 1, 1, 2, 3, 4]) for _ in range(draw.randint(0, 4))]
        if dtype is None:
            dtype = draw.choice(DTYPES)
        order = list(range(len(shape)))
        if draw.random() < 0.3:
            draw.shuffle(order)
        stored = [shape[dim] for dim in order]
        if draw.random() < 0.2:
            tensor = torch.zeros([2 * size for size in stored], dtype=dtype)[tuple(slice(0, None, 2) for _ in order)]
        else:
            tensor = torch.zeros(stored, dtype=dtype)
        tensor = tensor.permute([order.index(dim) for dim in range(len(order))])
        if draw.random() < 0.1 and tensor.dim() == 4:
            tensor = tensor.contiguous(memory_format=torch.channels_last)
        if draw.random() < 0.3 and dtype.is_floating_point:
            tensor = tensor.detach().requires_grad_()
        return tensor

    def like(self, tensor: torch.Tensor) -> torch.Tensor:
        """One to compute with: mostly of a shape that can be broadcast with it."""
        shape = [1 if self.random.random() < 0.25 else size for size in tensor.shape]
        if self.random.random() < 0.3:
            shape = shape[self.random.randint(0, len(shape)) :]
        return self.tensor(shape, tensor.dtype if self.random.random() < 0.8 else None)

    def dim(self) -> int:
        return self.random.randint(-3, 3)

    def sizes(self, tensor: torch.Tensor) -> tuple[int, ...]:
        if self.random.random() < 0.6:
            return (*tensor.shape[:1], -1)
        return tuple(self.random.choice([-1, 0, 1, 2, 3, 4]) for _ in range(self.random.randint(0, 4)))

    def number(self) -> Any:
        return self.random.choice([0, 2, -1.5, True])

    def index(self) -> Any:
        bounds = [None, 0, 1, -2]
        kinds: list[Callable[[], Any]] = [
            self.dim,
            lambda: slice(self.random.choice(bounds), self.random.choice([None, 2, -1]), self.random.choice([None, 2])),
            lambda: None,
            lambda: Ellipsis,
        ]
        return tuple(self.random.choice(kinds)() for _ in range(self.random.randint(1, 3)))

    def parameters(self, tensor: torch.Tensor, shape: list[int], count: int) -> list[torch.Tensor]:
        return [self.tensor(shape, tensor.dtype) for _ in range(count)]

    def convolution(self, rank: int) -> tuple[Any, ...]:
        draw = self.random
        groups, inner, outer = draw.choice([1, 1, 2]), draw.choice([1, 2, 4]), draw.choice([1, 2, 3])
        dtype = draw.choice(FLOATS)
        x = self.tensor([draw.choice([1, 2]), inner * groups, *[draw.choice([1, 4, 5]) for _ in range(rank)]], dtype)
        weight = self.tensor([groups * outer, inner, *[draw.choice([1, 2, 3]) for _ in range(rank)]], dtype)
        bias = self.tensor([groups * outer], dtype) if draw.random() < 0.5 else None
        return x, weight, bias, *[(draw.choice(choices),) * rank for choices in ([1, 2], [0, 1], [1, 2])], groups

    def of(self, name: str, is_method: bool) -> tuple[Any, ...]:
        x = self.tensor()
        mask = self.tensor(list(x.shape), torch.bool)
        last = x.shape[-1] if x.dim() else 2
        channels = [x.shape[1] if x.dim() > 1 else 2]
        special: dict[str, Callable[[], tuple[Any, ...]]] = {
            **dict.fromkeys(["view", "reshape", "expand", "repeat"], lambda: (x, self.sizes(x))),
            **dict.fromkeys(["transpose", "movedim", "swapaxes", "select"], lambda: (x, self.dim(), self.dim())),
            **dict.fromkeys(["view_as", "expand_as", "type_as"], lambda: (x, self.tensor(list(x.shape)))),
            **dict.fromkeys(["squeeze", "flatten", "softmax", "mean", "sum", "argmax"], lambda: (x, self.dim())),
            **dict.fromkeys(["cat", "stack"], lambda: ([x, self.tensor(list(x.shape), x.dtype)], self.dim())),
            **dict.fromkeys(["unsqueeze", "unbind"], lambda: (x, self.dim())),
            "permute": lambda: (x, tuple(self.random.sample(range(x.dim()), x.dim()))),
            "narrow": lambda: (x, self.dim(), 0, 1),
            "split": lambda: (x, self.random.choice([1, 2, [1, 2]]), self.dim()),
            "chunk": lambda: (x, self.random.randint(1, 3), self.dim()),
            "unflatten": lambda: (x, self.dim(), (self.random.choice([1, 2]), -1)),
            "unfold": lambda: (x, self.dim(), self.random.randint(1, 2), self.random.randint(1, 2)),
            "getitem": lambda: (x, self.index()),
            "topk": lambda: (x, 1, self.dim()),
            "gather": lambda: (x, self.dim(), self.tensor(list(x.shape), torch.int64)),
            "where": lambda: (x, mask, self.like(x)) if is_method else (mask, x, self.like(x)),
            "masked_fill": lambda: (x, mask, self.number()),
            "clamp": lambda: (x, 0),
            "to": lambda: (x, self.random.choice([torch.float16, torch.device("cpu")])),
            **dict.fromkeys(["bmm", "mm", "matmul"], lambda: (x, self.tensor([*x.shape[:-2], last, 3], x.dtype))),
            "linear": lambda: (
                x,
                *self.parameters(x, [3, last], 1),
                *self.parameters(x, [3], self.random.randint(0, 1)),
            ),
            "layer_norm": lambda: (x, (last,), *self.parameters(x, [last], 2)),
            "embedding": lambda: (self.tensor(None, torch.int64), self.tensor([5, 3], torch.float32)),
            "batch_norm": lambda: (x, *[p.detach() for p in self.parameters(x, channels, 4)], False),
            "group_norm": lambda: (x, self.random.choice([1, 2]), *self.parameters(x, channels, 2)),
            "dropout": lambda: (x, 0.5, False),
            "conv1d": lambda: self.convolution(1),
            "conv2d": lambda: self.convolution(2),
            "pow": lambda: (x, self.number()),
        }
        if name in special:
            return special[name]()
        if name in shortcuts._BINARY.split() and name != "invert":
            pair = x, self.like(x) if self.random.random() < 0.7 else self.number()
            return pair[::-1] if self.random.random() < 0.3 and not is_method else pair
        return (x,)


def name_of(target: Any) -> str:
    return target if isinstance(target, str) else target.__name__


def call(memo: MetadataMemo, target: Any, arguments: tuple[Any, ...], checks_memo: bool = False) -> Any:
    builder = GraphBuilder(memo, checks_memo)

    def value(argument: Any) -> Any:
        if isinstance(argument, torch.Tensor):
            return builder.add_input("x", argument)
        return [value(item) for item in argument] if isinstance(argument, list) else argument

    args = tuple(value(argument) for argument in arguments)
    return (builder.call_method if isinstance(target, str) else builder.call_function)(target, args)


TARGETS = sorted({*shortcuts._RULES, *shortcuts._ON_META}, key=lambda target: (name_of(target), str(type(target))))


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: f"{name_of(target)}-{type(target).__name__}")
def test_shortcuts_say_what_fake_tensors_say(target: Any) -> None:
    answers = Counter[str]()
    draw = Arguments(len(name_of(target)))
    for _ in range(CASES_PER_TARGET):
        arguments = draw.of(name_of(target), isinstance(target, str))
        memo = MetadataMemo()
        with torch.set_grad_enabled(draw.random.random() < 0.8):
            try:
                call(memo, target, arguments, checks_memo=True)
            except MetadataFailure:
                assert not len(memo), f"a shortcut answers where torch raises: {arguments}"
                continue
        answers["all"] += 1
    assert answers["all"], "no arguments were good"


def test_each_has_its_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing in the tables is there in vain: with contiguous arguments, no fake tensor is asked."""

    def run(self: Any, record: Any) -> Any:
        raise AssertionError(f"{record.name} was run on fake tensors")

    monkeypatch.setattr(GraphBuilder, "_run", run)
    x, weight, bias = torch.zeros(2, 3, 4), torch.zeros(5, 4), torch.zeros(5)
    image, kernel, channel = torch.zeros(2, 3, 6, 6), torch.zeros(4, 3, 3, 3), torch.zeros(3)
    cases: list[tuple[Any, tuple[Any, ...]]] = [
        (F.linear, (x, weight, bias)),
        (F.layer_norm, (x, (4,), torch.zeros(4), torch.zeros(4), 1e-5)),
        (F.embedding, (torch.zeros(2, 3, dtype=torch.int64), weight)),
        (F.batch_norm, (image, channel, channel, channel, channel, False)),
        (F.group_norm, (image, 3, channel, channel)),
        (F.dropout, (x, 0.5, False)),
        (torch.conv2d, (image, kernel, None, (2, 2), (1, 1))),
        (operator.mul, (2.0, x)),
        (operator.add, (x, torch.zeros(4))),
        (operator.getitem, (x, (0, slice(None)))),
        ("view", (x, 6, 4)),
        ("split", (x, 2, -1)),
        ("softmax", (x, -1)),
        (torch.matmul, (x, torch.zeros(4, 2))),
        (torch.cat, ([x, x], 1)),
    ]
    for target, arguments in cases:
        call(MetadataMemo(), target, arguments)


@pytest.mark.parametrize(
    ("target", "arguments"),
    [
        (F.dropout, (torch.zeros(2), 0.5, True)),
        (F.batch_norm, (torch.zeros(2, 3, 4), torch.zeros(3), torch.zeros(3), None, None, True)),
        (F.relu, (torch.zeros(2), True)),
        (F.embedding, (torch.zeros(2, dtype=torch.int64), torch.zeros(3, 4), None, 1.0)),
        (operator.getitem, (torch.zeros(3), torch.zeros(3, dtype=torch.int64))),
    ],
)
def test_operations_that_write_or_draw_or_look_are_run(
    target: Any, arguments: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []
    run = GraphBuilder._run
    monkeypatch.setattr(GraphBuilder, "_run", lambda self, r: (ran.append(r.name), run(self, r))[1])
    call(MetadataMemo(), target, arguments)
    assert ran


def test_a_wrong_rule_is_found_by_check_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(shortcuts._RULES, torch.relu, lambda x: shortcuts.Fresh((7,), x.dtype))
    with pytest.raises(MemoMismatch, match="shape"):
        call(MetadataMemo(), torch.relu, (torch.zeros(2),), checks_memo=True)


def test_autocast_is_not_guessed_at() -> None:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        result = call(MetadataMemo(), F.linear, (torch.zeros(2, 3), torch.zeros(4, 3)))
    assert result.dtype is torch.bfloat16


def test_an_input_gets_its_fake_after_views_of_it() -> None:
    """The storage of this one is larger than its sizes and strides tell."""
    builder = GraphBuilder(MetadataMemo())
    example = torch.empty(0).set_(torch.UntypedStorage(48), 0, (3, 2), (4, 2))
    x = builder.add_input("x", example)
    view = builder.call_method("reshape", (x, -1))
    assert view.fake._is_view() and view.fake.untyped_storage()._cdata == x.fake.untyped_storage()._cdata
    assert x.fake.untyped_storage().nbytes() == 48
