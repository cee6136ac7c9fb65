"""Objects that are no tensors, and that torch asks for `__torch_function__`."""

import dataclasses

import torch
import torch.nn.functional as F
from torch.utils import _pytree

from tests.kinds.program import Programs

program = Programs()


def x():
    return torch.arange(1.0, 4.0)


class Duck:
    def __init__(self, value):
        self.value = value

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        args, kwargs = _pytree.tree_map(
            lambda each: each.value if isinstance(each, Duck) else each, (args, kwargs or {})
        )
        return Duck(func(*args, **kwargs))


@dataclasses.dataclass
class Diagonal:
    """As in torch's documentation."""

    size: int
    value: float

    def tensor(self):
        return self.value * torch.eye(self.size)

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func is torch.mean:
            return args[0].value / args[0].size
        args = [arg.tensor() if isinstance(arg, Diagonal) else arg for arg in args]
        return func(*args, **(kwargs or {}))


class Lazy:
    def __init__(self, function):
        self.function = function

    def force(self):
        return self.function()

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return func(*[arg.force() if isinstance(arg, Lazy) else arg for arg in args], **(kwargs or {}))

    def __add__(self, other):
        return Lazy(lambda: self.force() + other)


class Declining:
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return NotImplemented


class Quiet:
    """What it has is not asked."""

    __torch_function__ = torch._C._disabled_torch_function_impl


@program(lambda: (x(), Duck(x())))
def functions(x, d):
    return torch.add(x, d).value, torch.sin(d).value, F.relu(d).value


@program(lambda: (x(), Duck(x())))
def operators(x, d):
    return (x + d).value, (x * d).value


@program(lambda: (x(), Duck(x())))
def methods_of_tensors(x, d):
    return x.add(d).value, x.dot(d).value


@program(lambda: (x(), Duck(x())))
def in_lists(x, d):
    return torch.cat([x, d]).value, torch.stack((d, x)).value


@program(lambda: (x(),))
def made_inside(x):
    d = Duck(x * 2)
    return torch.add(d, 1).value, torch.add(d, 1)


@program(lambda: (x(), Diagonal(3, 2.0)))
def diagonal(x, d):
    return torch.matmul(d, x), torch.mean(d), torch.add(x, d)


@program(lambda: (x(),))
def diagonal_made(x):
    d = Diagonal(3, 4.0)
    return torch.matmul(d, x), torch.mean(d)


@program(lambda: (x(),))
def lazy(x):
    pending = Lazy(lambda: x * 2) + 1
    return torch.sin(pending), torch.add(x, pending)


@program(lambda: (x(), Declining()))
def declining(x, d):
    try:
        torch.add(x, d)
    except TypeError:
        return x + 1


@program(lambda: (x(), Duck(x()), Declining()))
def one_declines(x, d, other):
    return torch.stack([other, d]) if x is None else torch.add(x, d).value


@program(lambda: (x(), Duck(x())))
def by_keyword(x, d):
    return torch.add(input=x, other=d).value, torch.clamp(x, min=d).value


@program(lambda: (x(), Duck(x())))
def as_index(x, d):
    return x + 1, isinstance(d, Duck), torch.overrides.has_torch_function((d,)), torch.overrides.is_tensor_like(d)


@program(lambda: (x(), Duck(x().requires_grad_())))
def gradients(x, d):
    return torch.mul(x, d).value.sum()


@program(lambda: (x(), Duck(x())))
def handled_by_own_function(x, d):
    def own(a, b):
        if torch.overrides.has_torch_function((a, b)):
            return torch.overrides.handle_torch_function(own, (a, b), a, b)
        return a + b

    return own(x, x), own(x, d).value
