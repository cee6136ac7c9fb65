"""Tensors of other classes than torch.Tensor, and objects that torch asks: what tests of them are made of."""

import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils import _pytree
from torch.utils._python_dispatch import TorchDispatchMode


class Plain(torch.Tensor):
    """No rules; but what is computed from it is of its class."""


class Logged(torch.Tensor):
    """Says what torch was asked for."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        result = super().__torch_function__(func, types, args, kwargs or {})
        print(getattr(func, "__name__", func))
        return result


class Tenfold(torch.Tensor):
    """Adds in its own way."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        result = super().__torch_function__(func, types, args, kwargs or {})
        with torch._C.DisableTorchFunctionSubclass():
            return result * 10 if func in (torch.add, torch.Tensor.add, torch.Tensor.__radd__) else result


class Quiet(torch.Tensor):
    """A class whose tensors compute plain ones."""

    __torch_function__ = torch._C._disabled_torch_function_impl


class Refusing(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func is torch.Tensor.add or func is torch.add:
            raise KeyError("no")
        return super().__torch_function__(func, types, args, kwargs or {})


class WithMethods(torch.Tensor):
    def twice(self):
        return self * 2

    @property
    def half(self):
        return self / 2

    def __add__(self, other):
        return super().__add__(other) * 100


class Tagged(torch.Tensor):
    @staticmethod
    def __new__(cls, data, tag=None):
        made = torch.as_tensor(data).as_subclass(cls)
        made.tag = tag
        return made


class Wrapper(torch.Tensor):
    """Wraps a tensor, and says which operators it runs on it."""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(
            cls, inner.shape, dtype=inner.dtype, strides=inner.stride(), requires_grad=inner.requires_grad
        )

    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        print(func)
        args, kwargs = _pytree.tree_map_only(Wrapper, lambda each: each.inner, (args, kwargs or {}))
        return _pytree.tree_map_only(torch.Tensor, Wrapper, func(*args, **kwargs))

    __torch_function__ = torch._C._disabled_torch_function_impl


class Odd(nn.Parameter):
    """A parameter of a class of its own."""

    def extra(self):
        return 42


class LoggedParameter(nn.Parameter):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        print(getattr(func, "__name__", func))
        return super().__torch_function__(func, types, args, kwargs or {})


class Duck:
    """No tensor, but torch asks it."""

    def __init__(self, value):
        self.value = value

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        args, kwargs = _pytree.tree_map(
            lambda each: each.value if isinstance(each, Duck) else each, (args, kwargs or {})
        )
        return Duck(func(*args, **kwargs))


class Asked:
    """Adds to any class that torch asks its instances."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return "asked", func.__name__


class AskedFloat(Asked, float):
    pass


class AskedList(Asked, list):
    pass


class AskedIndex(Asked):
    def __index__(self):
        return 1


class AskedInstance:
    def __init__(self):
        self.__torch_function__ = lambda func, types, args=(), kwargs=None: ("asked", func.__name__)


class AskedByGetattr:
    def __getattr__(self, name):
        if name == "__torch_function__":
            return lambda func, types, args=(), kwargs=None: ("asked", func.__name__)
        raise AttributeError(name)


class Reflected:
    """Torch does not ask it; Python does."""

    def __radd__(self, other):
        return "reflected"


class LoggingMode(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        print(getattr(func, "__name__", func))
        return func(*args, **(kwargs or {}))


class DoublingMode(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        return result * 2 if func is torch.add or func is torch.Tensor.add else result


class CountingMode(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        print(func)
        return func(*args, **(kwargs or {}))


def x(requires_grad=False):
    return torch.arange(1.0, 4.0).requires_grad_(requires_grad)


def two(requires_grad=False):
    return TwoTensor(torch.arange(1.0, 4.0), torch.arange(2.0, 5.0)).requires_grad_(requires_grad)


def of(cls, *values):
    """A tensor of a class without a constructor of its own."""
    return torch.tensor(values or (1.0, 2.0, 3.0)).as_subclass(cls)


class Layer(nn.Module):
    """A linear layer with a weight, and perhaps a buffer, of a class of its own."""

    def __init__(self, wrap=None, buffer=None):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        with torch.no_grad():
            self.linear.weight.copy_(torch.arange(9.0).reshape(3, 3) / 9)
            self.linear.bias.fill_(0.5)
        if wrap is not None:
            self.linear.weight = wrap(self.linear.weight.detach())
        self.register_buffer("buffer", buffer)

    def forward(self, x):
        y = self.linear(x)
        return y if self.buffer is None else y + self.buffer


def doubled(tensor):
    return nn.Parameter(TwoTensor(tensor, tensor + 1))


class Programs:
    """Collects programs with the functions that make their arguments; each becomes a test on two backends."""

    def __init__(self):
        self.cases = []

    def __call__(self, make, **options):
        def add(function):
            self.cases.append((function, make, options))
            return function

        return add
