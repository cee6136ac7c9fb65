"""Tensors with a `__torch_dispatch__` that wrap others: one graph of what is inside, and what invalidates an entry."""

import pytest
import torch
import torch.nn.functional as F
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils import _pytree

import framelift
from tests.helpers import check
from tests.kinds.areas.dispatch_subclasses import Dispatched, Int8Weight, Scaled
from tests.values.tensor_classes import Wrapper, two, x

BACKENDS = ["eager", "aot_eager"]
aten = torch.ops.aten


def matrix():
    return torch.arange(1.0, 7.0).reshape(2, 3)


class Counting(torch.Tensor):
    """Counts the operators that arrive."""

    calls = 0

    @staticmethod
    def __new__(cls, inner, tag=None):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    def __init__(self, inner, tag=None):
        self.inner, self.tag = inner, tag

    def __tensor_flatten__(self):
        return ["inner"], self.tag

    @staticmethod
    def __tensor_unflatten__(tensors, tag, size, stride):
        return Counting(tensors["inner"], tag)

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        Counting.calls += 1
        tag = next(arg.tag for arg in args if isinstance(arg, Counting))
        args, kwargs = _pytree.tree_map_only(Counting, lambda each: each.inner, (args, kwargs or {}))
        return Counting(func(*args, **kwargs), tag)


@pytest.mark.parametrize("backend", BACKENDS)
def test_operations(backend):
    def f(x, t):
        y = t * x + 1
        view = y[:1]
        view.add_(1)
        return y, view, F.softmax(t, 0), t.sum(), t.a, torch.stack([t, y])

    check(f, inputs=lambda: (x(), two()), backend=backend, fullgraph=True, deterministic=False)


@pytest.mark.parametrize("backend", [*BACKENDS, "inductor"])
@pytest.mark.parametrize("kind", [Int8Weight, Dispatched])
def test_a_quantised_layer(kind, backend):
    def f(x, weight, bias):
        return F.relu(F.linear(x, weight, bias))

    lifted = framelift.compile(f, backend=backend, fullgraph=True)
    for _ in range(2):
        given = matrix(), kind.of(torch.eye(3)), torch.ones(3)
        torch.testing.assert_close(lifted(*given), f(*given))


@pytest.mark.parametrize("backend", BACKENDS)
def test_written_to(backend):
    def f(x, t):
        t.add_(x)
        t[0] = 7.0
        t.b.mul_(2)
        return t + 1

    check(f, inputs=lambda: (x(), two()), backend=backend, fullgraph=True, deterministic=False)


@pytest.mark.parametrize("backend", BACKENDS)
def test_made_returned_and_nested(backend):
    def f(x):
        t = TwoTensor(x, x + 1)
        return t, TwoTensor(t, t * 2) + 1, t is t, type(t)

    check(f, x(), backend=backend, fullgraph=True)


def test_metadata_is_guarded():
    def f(s):
        return s.scale, s * 2

    lifted = framelift.compile(f, backend="eager", fullgraph=True)
    for scale in (2.0, 3.0, 2.0):
        expected, given = f(Scaled(matrix(), scale)), lifted(Scaled(matrix(), scale))
        assert given[0] == expected[0] and given[1].scale == expected[1].scale and type(given[1]) is Scaled


def test_tensors_inside_are_guarded():
    def f(t):
        return t * 2

    lifted = framelift.compile(f, backend="eager", fullgraph=True)
    for a in (torch.ones(3), torch.ones(4), torch.ones(3, dtype=torch.float64), torch.ones(3)):
        expected, given = f(TwoTensor(a, a + 1)), lifted(TwoTensor(a, a + 1))
        assert torch.equal(given.a, expected.a) and torch.equal(given.b, expected.b)
        assert given.shape == expected.shape and given.dtype == expected.dtype


def test_sizes_of_the_wrapper_are_guarded():
    def f(t):
        return t.shape, t.dtype, t.a + 1

    a = torch.arange(4.0)
    lifted = framelift.compile(f, backend="eager", fullgraph=True)
    for size in ((4,), (2, 2), (4, 1)):
        t = TwoTensor(a, a, torch.Size(size), (1,) * len(size))
        assert lifted(t)[0] == f(t)[0] == size


def test_another_torch_dispatch():
    class Changing(Counting):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return args[0].inner + 1

    def f(c):
        return c * 2

    lifted = framelift.compile(f, backend="eager")
    make = lambda: Changing(torch.zeros(2))  # noqa: E731
    assert lifted(make()).tolist() == [1.0, 1.0]
    Changing.__torch_dispatch__ = classmethod(lambda cls, func, types, args=(), kwargs=None: args[0].inner + 2)
    assert lifted(make()).tolist() == f(make()).tolist() == [2.0, 2.0]


def test_capture_dispatches_nothing():
    def f(c):
        return (c * 2 + 1).inner

    Counting.calls = 0
    lifted = framelift.compile(f, backend="eager", fullgraph=True)
    for calls in (2, 4, 6):
        assert lifted(Counting(torch.ones(2))).tolist() == [3.0, 3.0]
        assert Counting.calls == calls


def test_errors_are_those_of_eager():
    def f(t, x):
        try:
            return t @ x
        except RuntimeError as error:
            return str(error)

    check(f, inputs=lambda: (two(), torch.ones(5, 2)), expect_ops=0, expect_breaks=None, deterministic=False)


def test_derivatives_are_left_to_python():
    def f(t, x):
        return (t * x).sin()

    def gradients(function):
        t, a = two(True), x(True)
        function(t, a).sum().backward()
        return t.grad.a.tolist(), t.grad.b.tolist(), a.grad.a.tolist()

    assert gradients(framelift.compile(f, backend="aot_eager")) == gradients(f)
    lifted = framelift.compile(f, backend="eager", fullgraph=True)
    with torch.no_grad():
        assert torch.equal(lifted(two(True), x(True)).a, f(two(True), x(True)).a)


def test_tensors_inside_that_need_gradients():
    def f(c):
        return (c * 2).inner

    for backend in BACKENDS:
        lifted = framelift.compile(f, backend=backend)
        given = [function(Counting(torch.ones(2, requires_grad=True))) for function in (f, lifted, lifted)]
        assert [each.requires_grad for each in given] == [given[0].requires_grad] * 3


def test_a_break_in_between():
    def f(x, t):
        y = t + x
        framelift.graph_break()
        return y * 2, y

    check(f, inputs=lambda: (x(), two()), expect_breaks=1, deterministic=False)


def test_without_flatten():
    def f(w, x):
        return (w * x).inner, x + 1

    check(f, inputs=lambda: (Wrapper(x()), x()), expect_breaks=None, deterministic=False)


def test_hooks_are_left_to_python():
    def f(t, seen):
        t.register_hook(lambda gradient: seen.append(1))
        return t * 2, t.is_leaf, t.requires_grad

    def outcome(function):
        t, seen = two(True), []
        y, *facts = function(t, seen)
        y.sum().backward()
        return facts, seen, t.grad.a.tolist()

    assert outcome(framelift.compile(f, backend="eager")) == outcome(f)


@pytest.mark.parametrize("name", ["unsqueeze_", "t_", "requires_grad_", "numpy", "data_ptr", "tolist"])
def test_the_very_wrapper(name):
    def f(t):
        y = t * 2
        try:
            found = getattr(t, name)(*((0,) if name == "unsqueeze_" else ()))
        except Exception as error:
            found = str(error)
        return y, t.shape, t.requires_grad, found is t

    check(f, inputs=lambda: (TwoTensor(matrix(), matrix()),), expect_breaks=None, expect_ops=0, deterministic=False)
