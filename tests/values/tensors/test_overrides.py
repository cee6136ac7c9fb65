"""What is asked of whom, in which words and how often: of function modes and of classes, beside eager."""

import pytest
import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

import framelift
from tests.helpers.same import assert_same
from tests.values.tensor_classes import two, x

PROGRAMS = [
    lambda t, x: (t + x, x + t, 1 - t, 2**t, -t, abs(t), t == x, t @ x, t // 2, ~(t > 1)),
    lambda t, x: (t[0], t[1:], t[None], t[torch.tensor([0, 1])], len(t), list(t), [a * 2 for a in t], tuple(t)),
    lambda t, x: (t.shape, t.size(0), t.dim(), t.ndim, t.dtype, t.T, t.is_contiguous(), torch.numel(t)),
    lambda t, x: (t.sum(), t.max(0), torch.sort(t), t.norm(), t.cumsum(0), torch.var_mean(t), t.topk(2)),
    lambda t, x: (torch.cat([t, x]), torch.stack((x, t)), torch.cat(tensors=[t, t], dim=0), torch.where(t > 1, t, x)),
    lambda t, x: (F.relu(t), F.softmax(t, dim=0), F.layer_norm(t, (3,)), F.mse_loss(t, x), F.pad(t, (1, 1))),
    lambda t, x: (t.add_(x), x.copy_(t), t.zero_(), torch.add(t, x, out=x)),
    lambda t, x: (t.to(torch.float64), t.type_as(x), t.detach(), t.view(3, 1), t.expand_as(x), t.new_zeros(2)),
    lambda t, x: (torch.zeros(3) + t, torch.ones(2), torch.zeros_like(t), torch.arange(3) * t, torch.full((3,), 2.0)),
    lambda t, x: (torch.Tensor.add(t, x), torch.Tensor.shape.__get__(t), t.__radd__(1), torch.add(input=t, other=x)),
    lambda t, x: (f"{t.sum()}", str(t), bool(t.sum() > 0), int(t[0]), t.tolist(), max(t[0], t[1])),
    lambda t, x: (torch.ops.aten.add(t, x), torch._foreach_add([t, x], 1.0), torch.nn.ReLU()(t), sum([t, x])),
]


class Asked(torch.Tensor):
    heard: list[object] = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        Asked.heard.append((func.__name__, len(args), sorted(kwargs or {}), [kind.__name__ for kind in types]))
        return super().__torch_function__(func, types, args, kwargs or {})


class Hearing(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        Asked.heard.append((func.__name__, len(args), sorted(kwargs or {}), [kind.__name__ for kind in types]))
        return func(*args, **(kwargs or {}))


def outcome(function, make):
    Asked.heard.clear()
    torch.manual_seed(0)
    t, other = make(), x() * 1.5 + 1
    try:
        result = function(t, other)
    except (RuntimeError, TypeError) as error:
        result = str(error)
    return result, t, other, list(Asked.heard)


def same(function, make):
    expected = outcome(function, make)
    lifted = framelift.compile(function, backend="eager")
    for _ in range(2):
        actual = outcome(lifted, make)
        with torch._C.DisableTorchFunctionSubclass():
            assert_same(expected, actual)


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
@pytest.mark.parametrize("make", [lambda: x().as_subclass(Asked), two])
def test_classes(number, make):
    same(PROGRAMS[number], make)


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_modes(number):
    program = PROGRAMS[number]

    def within(t, x):
        with Hearing():
            return program(t, x)

    same(within, x)
