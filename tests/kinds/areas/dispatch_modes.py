"""`TorchDispatchMode`, pushed inside and around."""

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from tests.kinds.program import Programs

program = Programs()


def x():
    return torch.arange(6.0).reshape(2, 3)


class Counting(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append(str(func))
        return func(*args, **(kwargs or {}))


class Doubling(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        return result * 2 if func is torch.ops.aten.sin.default else result


@program(lambda: (x(),))
def inside(x):
    with Counting() as mode:
        y = torch.sin(x) + 1
    return y, mode.seen


@program(lambda: (x(),))
def changes_results(x):
    with Doubling():
        y = torch.sin(x)
    return y, torch.sin(x)


@program(lambda: (x(),), around=Doubling)
def around(x):
    return torch.sin(x) + 1


@program(lambda: (x(),))
def flops(x):
    with FlopCounterMode(display=False) as counter:
        y = x @ x.T
    return y, counter.get_total_flops()


@program(lambda: (x(), Doubling()))
def given(x, mode):
    with mode:
        return torch.sin(x) * 3
