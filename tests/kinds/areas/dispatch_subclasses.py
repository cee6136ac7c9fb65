"""Wrapper subclasses with `__torch_dispatch__`, and with `__tensor_flatten__` where not said otherwise."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils import _pytree

from tests.kinds.program import Programs

program = Programs()
aten = torch.ops.aten


def x(requires_grad=False):
    return torch.arange(1.0, 7.0).reshape(2, 3).requires_grad_(requires_grad)


def two(requires_grad=False):
    return TwoTensor(x(), x() + 1).requires_grad_(requires_grad)


class Scaled(torch.Tensor):
    """A tensor and a number, kept apart until they are needed together."""

    @staticmethod
    def __new__(cls, inner, scale, requires_grad=False):
        return torch.Tensor._make_wrapper_subclass(
            cls,
            inner.shape,
            strides=inner.stride(),
            dtype=inner.dtype,
            device=inner.device,
            requires_grad=requires_grad or inner.requires_grad,
        )

    def __init__(self, inner, scale, requires_grad=False):
        self.inner = inner
        self.scale = scale

    def __tensor_flatten__(self):
        return ["inner"], self.scale

    @staticmethod
    def __tensor_unflatten__(tensors, scale, size, stride):
        return Scaled(tensors["inner"], scale)

    def __repr__(self):
        return f"Scaled({self.inner}, {self.scale})"

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func is aten.mul.Tensor and isinstance(args[0], Scaled) and isinstance(args[1], (int, float)):
            return Scaled(args[0].inner, args[0].scale * args[1])
        if func in (aten.detach.default, aten.clone.default, aten.t.default, aten.view.default):
            return Scaled(func(args[0].inner, *args[1:], **kwargs), args[0].scale)
        args, kwargs = _pytree.tree_map_only(Scaled, lambda each: each.inner * each.scale, (args, kwargs))
        return func(*args, **kwargs)


class Int8Weight(torch.Tensor):
    """Weight-only quantisation, as torchao's `AffineQuantizedTensor` and torch's own examples have it."""

    @staticmethod
    def __new__(cls, data, scale):
        return torch.Tensor._make_wrapper_subclass(cls, data.shape, dtype=scale.dtype, device=data.device)

    def __init__(self, data, scale):
        self.data_int8 = data
        self.scale = scale

    @classmethod
    def of(cls, weight):
        scale = weight.abs().amax(dim=1) / 127
        return cls((weight / scale[:, None]).round().to(torch.int8), scale)

    def dequantize(self):
        return self.data_int8.to(self.scale.dtype) * self.scale[:, None]

    def __tensor_flatten__(self):
        return ["data_int8", "scale"], None

    @classmethod
    def __tensor_unflatten__(cls, tensors, meta, size, stride):
        return cls(tensors["data_int8"], tensors["scale"])

    def __repr__(self):
        return f"Int8Weight({self.data_int8}, {self.scale})"

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func is F.linear:
            input, weight, *bias = args
            result = (input @ weight.data_int8.t().to(input.dtype)) * weight.scale
            return result if not bias or bias[0] is None else result + bias[0]
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        if func in (aten.detach.default, aten.clone.default):
            return cls(func(args[0].data_int8), func(args[0].scale))
        args, kwargs = _pytree.tree_map_only(Int8Weight, lambda each: each.dequantize(), (args, kwargs or {}))
        return func(*args, **kwargs)


class Dispatched(Int8Weight):
    """The same, with all of it below the dispatcher."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        if func in (aten.detach.default, aten.clone.default):
            return cls(func(args[0].data_int8), func(args[0].scale))
        args, kwargs = _pytree.tree_map_only(Int8Weight, lambda each: each.dequantize(), (args, kwargs or {}))
        return func(*args, **kwargs)


class Opaque(torch.Tensor):
    """One that says nothing of what it is made of."""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        args, kwargs = _pytree.tree_map_only(Opaque, lambda each: each.inner, (args, kwargs or {}))
        return _pytree.tree_map_only(torch.Tensor, Opaque, func(*args, **kwargs))

    __torch_function__ = torch._C._disabled_torch_function_impl


class Linear(nn.Module):
    def __init__(self, wrap):
        super().__init__()
        self.linear = nn.Linear(3, 4)
        with torch.no_grad():
            self.linear.weight.copy_(torch.arange(12.0).reshape(4, 3) / 12)
            self.linear.bias.fill_(0.5)
        self.linear.weight = nn.Parameter(wrap(self.linear.weight.detach()), requires_grad=False)

    def forward(self, x):
        return F.relu(self.linear(x))


def doubled(weight):
    return TwoTensor(weight, weight + 1)


# -- given -------------------------------------------------------------------------------------------------------------


@program(lambda: (two(), x()))
def operators(t, x):
    return t + x, x * t, 1 - t, -t, t @ x.T, t > 1


@program(lambda: (two(), x()))
def functions(t, x):
    return torch.sin(t), F.relu(t), torch.cat([t, t]), torch.where(x > 1, t, t), torch.add(t, x)


@program(lambda: (two(),))
def methods(t):
    return t.sin().cos(), t.sum(), t.mean(dim=0), t.to(torch.float64), t.clone(), t.detach()


@program(lambda: (two(), x()))
def views(t, x):
    return t[0], t[:, 1:], t.view(-1), t.T, t.reshape(3, 2), t.unsqueeze(0) + x


@program(lambda: (two(),))
def facts(t):
    return t.shape, t.dtype, t.device, t.ndim, t.requires_grad, len(t), t.size(1), t + 1


@program(lambda: (two(), x()))
def inner_tensors(t, x):
    return t.a + x, t.b * 2, t + x


@program(lambda: (two(), x()))
def told_apart(t, x):
    return isinstance(t, TwoTensor), type(t), isinstance(t, torch.Tensor), type(t + x), x + 1


@program(lambda: (two(), two()))
def of_two(s, t):
    return s + t, s * t.a


@program(lambda: (TwoTensor(two(), two()), x()))
def nested(t, x):
    y = t + x
    return y, y.a.b


@program(lambda: (Scaled(x(), 2.0), x()))
def with_metadata(s, x):
    return s + x, s * 3, (s * 3).scale


@program(lambda: (Scaled(x(), 2.0),))
def metadata_read(s):
    return s.scale, s.inner + 1, s + 1


@program(lambda: (two(), x()))
def written(t, x):
    t.add_(x)
    t.mul_(2)
    return t + 1


@program(lambda: (two(), x()))
def written_in_part(t, x):
    t[0] = 7.0
    t += x
    return t * 2


@program(lambda: (two(), x()))
def inner_written(t, x):
    t.a.add_(x)
    return t + 1


@program(lambda: (two(True), x()))
def gradients(t, x):
    return (t * x).sin().sum()


@program(lambda: (x(True), two()))
def gradients_of_plain(x, t):
    y = x * t
    return (y.a + y.b).sum()


@program(lambda: ({"k": [two()]}, x()))
def from_containers(d, x):
    return {"a": d["k"][0] + x, "b": [d["k"][0]]}


@program(lambda: (two(), two()))
def by_turns(s, t):
    for _ in range(3):
        s = s * t + 1
    return s


@program(lambda: (Opaque(x()), x()))
def without_flatten(o, x):
    y = x + 1
    return (o + y).inner, y


@program(lambda: (two(),))
def attention(t):
    return F.scaled_dot_product_attention(t[None], t[None], t[None])


@program(lambda: (two().requires_grad_(False),))
def no_grad(t):
    with torch.no_grad():
        return t * 2


# -- made inside -------------------------------------------------------------------------------------------------------


@program(lambda: (x(),))
def made(x):
    t = TwoTensor(x, x + 1)
    return t * 2, t


@program(lambda: (x(),))
def made_and_dropped(x):
    t = TwoTensor(x, x + 1) * 2
    return t.a + t.b


@program(lambda: (x(),))
def made_with_metadata(x):
    s = Scaled(x * 2, 3.0)
    return s + 1, s * 2.0


@program(lambda: (x(True),))
def made_with_gradients(x):
    t = TwoTensor(x * 2, x * 3)
    return (t.a * t.b).sum()


@program(lambda: (x(),))
def made_quantised(x):
    w = Int8Weight.of(x)
    return F.linear(x, w), w.dequantize()


@program(lambda: (x(),))
def made_opaque(x):
    o = Opaque(x)
    return (o + 1).inner, x + 1


# -- parameters --------------------------------------------------------------------------------------------------------


@program(lambda: (x(), Linear(doubled)))
def parameter(x, m):
    return m(x)


@program(lambda: (x(), Linear(Int8Weight.of)))
def int8_linear(x, m):
    return m(x)


@program(lambda: (x(), Linear(Dispatched.of)))
def int8_linear_dispatched(x, m):
    return m(x)


@program(lambda: (x(), nn.Sequential(Linear(Int8Weight.of), nn.Linear(4, 4).requires_grad_(False))))
def int8_sequential(x, m):
    with torch.no_grad():
        m[1].weight.fill_(0.1)
        m[1].bias.fill_(0.1)
    return m(x)


@program(lambda: (x(), Int8Weight.of(x())))
def dequantised(x, w):
    return w.dequantize() + x


@program(lambda: (x(), Linear(lambda weight: Scaled(weight, 2.0))))
def parameter_with_metadata(x, m):
    return m(x)


@program(lambda: (x(), nn.Parameter(two())))
def parameter_trained(x, p):
    return (p * x).sum()


@program(lambda: (Linear(doubled), x()))
def parameters_listed(m, x):
    return [type(p) for p in m.parameters()], [name for name, _ in m.named_parameters()], x + 1
