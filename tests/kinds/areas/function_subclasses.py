"""Subclasses of Tensor with `__torch_function__`: metadata that is carried along, logging, units, parameters."""

import functools
from collections import defaultdict

import torch
import torch.nn.functional as F
from torch import nn

from tests.kinds.program import Programs

program = Programs()


def x(requires_grad=False):
    return torch.arange(1.0, 7.0).reshape(2, 3).requires_grad_(requires_grad)


def of(cls, requires_grad=False):
    return x(requires_grad).as_subclass(cls)


class Plain(torch.Tensor):
    """No rules of its own."""


class Logged(torch.Tensor):
    log = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.log.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs or {})


class Named(torch.Tensor):
    """Keeps a label, and hands it on."""

    @staticmethod
    def __new__(cls, data, label=None):
        made = torch.as_tensor(data).as_subclass(cls)
        made.label = label
        return made

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        result = super().__torch_function__(func, types, args, kwargs or {})
        if isinstance(result, cls):
            result.label = next((arg.label for arg in args if isinstance(arg, cls) and hasattr(arg, "label")), None)
        return result


def named(label="a", requires_grad=False):
    return Named(x(requires_grad), label)


class Unit(torch.Tensor):
    """A quantity: adding takes equal units, multiplying joins them."""

    unit = ""

    @staticmethod
    def of(data, unit):
        made = data.as_subclass(Unit)
        made.unit = unit
        return made

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        units = [arg.unit for arg in args if isinstance(arg, Unit)]
        with torch._C.DisableTorchFunctionSubclass():
            result = func(*args, **kwargs)
        if func in (torch.add, torch.Tensor.add, torch.Tensor.__add__):
            if len(set(units)) > 1:
                raise ValueError(f"{units[0]} and {units[1]}")
            return Unit.of(result, units[0])
        if func in (torch.mul, torch.Tensor.mul, torch.Tensor.__mul__):
            return Unit.of(result, "*".join(units))
        return result


HANDLED = {}


def implements(function):
    def register(handler):
        HANDLED[function] = functools.wraps(function)(handler)
        return handler

    return register


class Scalar(torch.Tensor):
    """A table of handlers, as torch's documentation has it."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func in HANDLED and all(issubclass(kind, (torch.Tensor, Scalar)) for kind in types):
            return HANDLED[func](*args, **kwargs)
        return super().__torch_function__(func, types, args, kwargs)


@implements(torch.mean)
def mean(input):
    return torch.Tensor.sum(input) * 0.5


@implements(F.softmax)
def softmax(input, dim=None, **kwargs):
    return input.exp()


class Quiet(torch.Tensor):
    __torch_function__ = torch._C._disabled_torch_function_impl


class WithMethods(torch.Tensor):
    factor = 3

    def twice(self):
        return self * 2

    @property
    def half(self):
        return self / 2

    @staticmethod
    def one():
        return 1

    @classmethod
    def made(cls, data):
        return data.as_subclass(cls)

    def sum(self, *args, **kwargs):
        return super().sum(*args, **kwargs) * 10

    def __add__(self, other):
        return super().__add__(other) * 100


class Below(Named):
    """A subclass of a subclass that overrides what the other does."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        result = super().__torch_function__(func, types, args, kwargs)
        return result + 1 if func is torch.sin else result


class Strict(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func in (torch.cos, torch.Tensor.cos):
            raise TypeError("no cos")
        return super().__torch_function__(func, types, args, kwargs or {})


class Declining(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if not all(issubclass(kind, (cls, torch.Tensor)) for kind in types) or any(kind is Plain for kind in types):
            return NotImplemented
        return super().__torch_function__(func, types, args, kwargs or {})


class Odd(nn.Parameter):
    def extra(self):
        return self * 2


class LoggedParameter(nn.Parameter):
    calls = defaultdict(int)

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.calls[func.__name__] += 1
        return super().__torch_function__(func, types, args, kwargs or {})


class TaggedParameter(nn.Parameter):
    def __new__(cls, data, tag):
        made = super().__new__(cls, data)
        made.tag = tag
        return made


# -- given -------------------------------------------------------------------------------------------------------------


@program(lambda: (x(), of(Plain)))
def plain_operators(x, p):
    return p + x, x + p, p * 2, 2 - p, -p, p > 1, p @ x.T, p[0], p[:, 1:], p == x


@program(lambda: (x(), of(Plain)))
def plain_functions(x, p):
    return torch.sin(p), p.sum(), torch.cat([x, p]), torch.where(x > 1, x, p), F.relu(p), torch.max(p, 0), p.unbind()


@program(lambda: (of(Plain),))
def plain_facts(p):
    return p.shape, p.dtype, p.device, p.ndim, p.size(0), p.is_floating_point(), len(p), p.T, p.requires_grad, p + 1


@program(lambda: (of(Logged),))
def logging(p):
    Logged.log.clear()
    y = torch.sin(p) + 1
    z = y.sum(dim=0)
    shape = z.shape
    return y, z, shape, list(Logged.log)


@program(lambda: (named(), x()))
def metadata_carried(n, x):
    y = n * x
    z = torch.sin(y)
    return y, z, y.label, z.label, type(z)


@program(lambda: (named(), named("b")))
def metadata_of_the_first(n, m):
    y = n + m
    z = m.add(n)
    return y.label, z.label, y, z


@program(lambda: (named(),))
def metadata_written(n):
    n.label = n.label + "!"
    y = n + 1
    y.more = [1, 2]
    return y, y.label, y.more, hasattr(n, "more")


@program(lambda: (named(),))
def metadata_steers(n):
    if n.label == "a":
        return n + 1
    return n - 1


@program(lambda: (Unit.of(x(), "m"), Unit.of(x(), "m")))
def units(a, b):
    total = a + b
    area = a * b
    return total, area, total.unit, area.unit


@program(lambda: (Unit.of(x(), "m"), Unit.of(x(), "s")))
def units_that_differ(a, b):
    try:
        a + b
    except ValueError as error:
        return str(error), a * b


@program(lambda: (of(Scalar),))
def table_of_handlers(s):
    return torch.mean(s), F.softmax(s, dim=0), torch.sum(s)


@program(lambda: (of(Quiet), x()))
def switched_off(q, x):
    y = q + x
    return y, type(y), torch.sin(q)


@program(lambda: (of(WithMethods),))
def methods_of_its_own(p):
    return p.twice(), p.half, p.one(), p.factor, type(p.twice())


@program(lambda: (of(WithMethods), x()))
def methods_overridden(p, x):
    return p.sum(), p.sum(dim=0), p + x, p + 1


@program(lambda: (x(),))
def class_methods(x):
    p = WithMethods.made(x * 2)
    return p, p.twice(), type(p)


@program(lambda: (Below(x(), "b"), named()))
def subclass_of_a_subclass(b, n):
    return torch.sin(b), b + n, n + b, torch.sin(n), (n + b).label, type(n + b)


@program(lambda: (of(Strict),))
def raising(s):
    try:
        return torch.cos(torch.sin(s))
    except TypeError as error:
        return str(error), torch.sin(s)


@program(lambda: (of(Declining), of(Plain)))
def declining(d, p):
    y = d + 1
    try:
        z = d + p
    except TypeError:
        z = "declined"
    return y, z


@program(lambda: (of(Plain), x()))
def disabled(p, x):
    with torch._C.DisableTorchFunctionSubclass():
        y = p + x
    return y, type(y), type(p + x)


@program(lambda: (of(Logged), x()))
def nested_arguments(p, x):
    Logged.log.clear()
    y = torch.stack([x, p])
    z = torch.cat((p, x))
    return y, z, list(Logged.log), type(y)


@program(lambda: (of(Plain),))
def walked(p):
    first, second = p
    return first, second, [row * 2 for row in p], type(first)


@program(lambda: (of(Plain), x()))
def in_place(p, x):
    p.add_(x)
    p[0] = 7.0
    p *= 2
    x.mul_(p)
    return p + 1, x + 1


@program(lambda: (named(), x()))
def told_apart(n, x):
    return (
        isinstance(n, Named),
        isinstance(n, Plain),
        isinstance(n, torch.Tensor),
        type(n),
        type(n) is Named,
        n is n,
        x + 1,
    )


@program(lambda: (of(Plain, True), x()))
def gradients(p, x):
    y = (p * x).sin()
    return y.sum()


@program(lambda: (x(True),))
def gradients_through(x):
    p = (x * 2).as_subclass(Named)
    p.label = "n"
    return (p * x).sum()


@program(lambda: ({"k": [named()]}, x()))
def from_containers(d, x):
    return d["k"][0] + x, [d["k"][0] * 2]


@program(lambda: (named(),))
def through_calls(n):
    def inner(y, *, other):
        return y + other

    return inner(n, other=n), list(map(lambda a: a * 2, [n]))


@program(lambda: (of(Plain), x()))
def methods_unbound(p, x):
    return torch.Tensor.add(p, x), torch.Tensor.sum(p), torch.Tensor.__mul__(x, p)


@program(lambda: (of(Plain), x()))
def out_argument(p, x):
    made = torch.zeros(2, 3)
    torch.add(p, x, out=made)
    return made + 1


@program(lambda: (of(Plain),))
def conversions(p):
    return p.to(torch.float64), p.double(), p.clone(), p.detach(), p.contiguous(), p.reshape(-1), p.T


@program(lambda: (of(Plain),))
def views_share(p):
    view = p.view(-1)
    view.add_(1)
    return view, p


@program(lambda: (named(),))
def attributes_asked(n):
    return hasattr(n, "label"), getattr(n, "absent", 5), n.__class__, n + 1


# -- made inside -------------------------------------------------------------------------------------------------------


@program(lambda: (x(),))
def made_by_as_subclass(x):
    p = (x * 2).as_subclass(Plain)
    return p + x, type(p + x), p.as_subclass(torch.Tensor) + 1


@program(lambda: (x(),))
def made_by_a_constructor(x):
    n = Named(x * 2, "made")
    y = n + 1
    return n, y, y.label


@program(lambda: (x(),))
def made_of_nothing(x):
    n = Named(torch.ones(2, 3), label="ones")
    return n * x, (n * x).label


@program(lambda: (x(),))
def made_and_dropped(x):
    n = Named(x, "tmp")
    y = torch.sin(n).as_subclass(torch.Tensor)
    return y + 1


@program(lambda: (x(),))
def aliases(x):
    p = x.as_subclass(Plain)
    x.add_(1)
    q = p + 1
    p.mul_(2)
    return q, p, x + 1


@program(lambda: (x(),))
def unit_made(x):
    a, b = Unit.of(x, "m"), Unit.of(x + 1, "m")
    return (a + b).unit, a + b, (a * b).unit


# -- parameters --------------------------------------------------------------------------------------------------------


class Layer(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight = weight

    def forward(self, x):
        return F.linear(x, self.weight)


class WithBuffer(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        with torch.no_grad():
            self.linear.weight.fill_(0.5)
            self.linear.bias.fill_(0.25)
        self.register_buffer("shift", named("shift"))

    def forward(self, x):
        return self.linear(x) + self.shift


@program(lambda: (x(), Odd(x())))
def parameter(x, p):
    return p * x, p.extra(), isinstance(p, nn.Parameter), type(p * x)


@program(lambda: (x(), Layer(Odd(x()))))
def parameter_of_a_module(x, m):
    return m(x), m.weight.extra()


@program(lambda: (x(), Layer(LoggedParameter(x()))))
def parameter_that_counts(x, m):
    LoggedParameter.calls.clear()
    y = m(x)
    return y, dict(LoggedParameter.calls)


@program(lambda: (x(), TaggedParameter(x(), "t")))
def parameter_with_attributes(x, p):
    return x * p, p.tag


@program(lambda: (x(), WithBuffer()))
def buffer_of_a_module(x, m):
    y = m(x)
    return y, y.label


@program(lambda: (x(), nn.Sequential(nn.Linear(3, 3), nn.ReLU()).requires_grad_(False)))
def module_given_one(x, m):
    with torch.no_grad():
        m[0].weight.fill_(0.1)
        m[0].bias.fill_(0.2)
    return m(x.as_subclass(Plain))


@program(lambda: (named("q"), named("k"), named("v")))
def attention(q, k, v):
    return F.scaled_dot_product_attention(q[None], k[None], v[None])
