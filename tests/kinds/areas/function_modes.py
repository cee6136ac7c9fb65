"""`TorchFunctionMode`: pushed inside, around, nested, and torch's own."""

import torch
import torch.nn.functional as F
from torch.overrides import BaseTorchFunctionMode, TorchFunctionMode

from tests.kinds.program import Programs

program = Programs()


def x():
    return torch.arange(6.0).reshape(2, 3)


class Doubling(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        return result * 2 if func in (torch.add, torch.Tensor.add) else result


class Counting(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.seen.append(getattr(func, "__name__", str(func)))
        return func(*args, **(kwargs or {}))


class Scaling(TorchFunctionMode):
    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        return result * self.factor if func is torch.sin else result


class Replacing(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is F.relu:
            return F.gelu(args[0])
        if func is torch.zeros:
            return torch.ones(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


class Refusing(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is torch.cos:
            raise ValueError("no cos")
        return func(*args, **(kwargs or {}))


@program(lambda: (x(),))
def inside(x):
    with Doubling():
        y = torch.add(x, 1)
    return y, torch.add(x, 1)


@program(lambda: (x(),))
def operators_inside(x):
    with Counting() as mode:
        y = x + 1
        y = -(y * 2) @ x.T
        z = y[0] > 1
    return y, z, mode.seen


@program(lambda: (x(),))
def with_state(x):
    with Scaling(3.0):
        y = torch.sin(x)
    with Scaling(4.0) as mode:
        mode.factor = 5.0
        z = torch.sin(x)
    return y, z


@program(lambda: (x(),))
def nested(x):
    with Scaling(2.0):
        with Scaling(3.0):
            y = torch.sin(x)
        z = torch.sin(x)
    return y, z


@program(lambda: (x(), Scaling(2.0)))
def given(x, mode):
    with mode:
        return torch.sin(x)


@program(lambda: (x(),))
def replaces_functions(x):
    with Replacing():
        return F.relu(x - 2), torch.zeros(3) + x


@program(lambda: (x(),))
def raises_inside(x):
    try:
        with Refusing():
            y = torch.sin(x)
            y = torch.cos(y)
    except ValueError as error:
        return str(error), torch.cos(x)


@program(lambda: (x(),))
def methods_and_properties(x):
    with Counting() as mode:
        y = x.sum(dim=0).to(torch.float64)
        shape, dtype = x.shape, x.dtype
    return y, shape, dtype, mode.seen


@program(lambda: (x(),))
def modules_inside(x):
    layer = torch.nn.ReLU()
    with Replacing():
        return layer(x - 2)


@program(lambda: (x(),))
def base_mode(x):
    with BaseTorchFunctionMode():
        return torch.sin(x) + 1


@program(lambda: (x(),))
def disabled_inside(x):
    with Doubling(), torch._C.DisableTorchFunction():
        return torch.add(x, 1)


@program(lambda: (x(),), around=Doubling)
def around(x):
    return torch.add(x, 1), x + 1


@program(lambda: (x(),), around=lambda: Scaling(7.0))
def around_with_state(x):
    return torch.sin(x) * 2


@program(lambda: (x(),))
def default_device_inside(x):
    with torch.device("cpu"):
        return torch.ones(3) + x


@program(lambda: (x(),), around=lambda: torch.device("meta"))
def default_device_around(x):
    return torch.ones(3), x + 1


@program(lambda: (x(),))
def calls_in_a_helper(x):
    def helper(y):
        with Scaling(2.0):
            return torch.sin(y)

    return helper(x) + helper(x + 1)


@program(lambda: (x(),))
def mode_in_a_loop(x):
    mode = Scaling(2.0)
    for _ in range(3):
        with mode:
            x = torch.sin(x)
    return x


@program(lambda: (x().requires_grad_(),))
def with_gradients(x):
    with Scaling(2.0):
        return torch.sin(x).sum() + torch.cos(x).sum()


@program(lambda: (x(),))
def in_place_inside(x):
    with Counting() as mode:
        x.add_(1)
        x[0] = 5.0
        x *= 2
    return x, mode.seen
