"""Tensors of classes with a `__torch_function__`: one graph, as in eager, and what makes an entry invalid."""

import pytest
import torch
from torch import nn
from torch.overrides import TorchFunctionMode

import framelift
from tests.helpers import check, transcript
from tests.values.tensor_classes import Duck, Logged, LoggedParameter, Odd, Plain, Tagged, Tenfold, of, x

BACKENDS = ["eager", "aot_eager"]


def labelled(label="a"):
    tensor = of(Plain)
    tensor.label = label
    return tensor


class Scaling(TorchFunctionMode):
    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        return result * self.factor if func is torch.sin else result


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", [Plain, Logged, Tenfold])
def test_results_are_of_the_class(kind, backend):
    def f(x, p):
        y = p + x
        return y, torch.sin(y), x * p, p.sum(dim=0), p.shape, type(y), p[0], y.view(3, 1)

    check(f, inputs=lambda: (x(), of(kind)), backend=backend, fullgraph=True)


@pytest.mark.parametrize("backend", BACKENDS)
def test_plain_tensors_beside_them(backend):
    def f(x):
        y = x * 2
        p = y.as_subclass(Plain)
        y.add_(1)
        q = y.as_subclass(Plain)
        return y, p, q, p + 1, x.as_subclass(Plain), p is q

    check(f, x(), backend=backend, fullgraph=True)


@pytest.mark.parametrize("backend", BACKENDS)
def test_written_to(backend):
    def f(x, p):
        p.add_(x)
        x.mul_(p)
        p[0] = 7.0
        view = p[1:]
        view *= 2
        return p, view, x + p

    check(f, inputs=lambda: (x(), of(Plain)), backend=backend, fullgraph=True)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("make", [lambda: of(Plain).requires_grad_(), lambda: Odd(x()), lambda: LoggedParameter(x())])
def test_gradients_arrive(make, backend):
    def f(x, p):
        return (p * x).sin() * p

    lifted = framelift.compile(f, backend=backend, fullgraph=True)
    gradients = []
    for function in (f, lifted, lifted):
        p, a = make(), x(True)
        function(a, p).sum().backward()
        gradients.append((p.grad.as_subclass(torch.Tensor).tolist(), a.grad.tolist(), type(p.grad)))
    assert gradients[0] == gradients[1] == gradients[2]


def test_gradients_kept_on_the_way():
    def f(x):
        y = (x * 2).as_subclass(Plain)
        return y, y * 3

    for function in (f, framelift.compile(f, backend="eager", fullgraph=True)):
        y, z = function(x(True))
        y.retain_grad()
        z.sum().backward()
        assert y.grad.as_subclass(torch.Tensor).tolist() == [3.0, 3.0, 3.0]


def test_attributes_are_guarded():
    def f(p):
        return p + 1 if p.label == "a" else p - 1

    lifted = framelift.compile(f, backend="eager", fullgraph=True)
    for label in "aabba":
        assert lifted(labelled(label)).tolist() == f(labelled(label)).tolist()
    assert transcript(f, [(labelled(),), (labelled(),), (labelled("b"),)]).startswith("miss hit miss")


def test_the_class_is_guarded():
    def f(p):
        return p + 1

    lifted = framelift.compile(f, backend="eager", fullgraph=True)
    for make in (
        lambda: of(Plain),
        x,
        lambda: of(Tenfold),
        lambda: of(Plain),
        lambda: of(Tenfold),
        lambda: Tagged(x()),
    ):
        expected, given = f(make()), lifted(make())
        assert type(given) is type(expected) and given.tolist() == expected.tolist()


def test_another_torch_function():
    class Changing(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return "before", func.__name__

    def f(p):
        return torch.add(p, 1)

    lifted = framelift.compile(f, backend="eager")
    p = of(Changing)
    assert lifted(p) == lifted(p) == ("before", "add")
    Changing.__torch_function__ = classmethod(lambda cls, func, types, args=(), kwargs=None: ("after", func.__name__))
    assert lifted(p) == f(p) == ("after", "add")


def test_capture_asks_nobody():
    class Counting(torch.Tensor):
        calls = 0

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            cls.calls += 1
            return super().__torch_function__(func, types, args, kwargs or {})

    def f(p):
        return torch.sin(p) + 1

    p = of(Counting)
    lifted = framelift.compile(f, backend="eager", fullgraph=True)
    for calls in range(1, 4):
        lifted(p)
        assert Counting.calls == 2 * calls


def test_called_where_no_class_is_asked():
    def f(p):
        return p + 1, type(p + 1)

    lifted = framelift.compile(f, backend="eager", fullgraph=True)
    for _ in range(2):
        assert lifted(of(Plain))[1] is Plain
        with torch._C.DisableTorchFunctionSubclass():
            assert lifted(of(Plain))[1] is torch.Tensor


def test_a_break_in_between():
    def f(x, p):
        y = p + x
        framelift.graph_break()
        return y * 2, x + 1

    check(f, inputs=lambda: (x(), labelled()), expect_breaks=1, deterministic=False)


def test_sizes_that_change():
    def f(p):
        return p * 2, p.shape

    lifted = framelift.compile(f, backend="eager", fullgraph=True)
    for n in (2, 3, 4, 5):
        p = torch.arange(float(n)).as_subclass(Plain)
        assert lifted(p)[1] == (n,) and type(lifted(p)[0]) is Plain


def test_modules():
    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = Odd(torch.eye(3))

        def forward(self, x):
            return nn.functional.linear(x, self.weight), type(self.weight), isinstance(self.weight, nn.Parameter)

    check(Layer(), x()[None], fullgraph=True, deterministic=False)


# -- function modes ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_modes_pushed_inside(backend):
    def f(x):
        with Scaling(2.0):
            y = torch.sin(x)
            with Scaling(3.0) as inner:
                z = torch.sin(x) + x.sin()
        return y, z, torch.sin(x), inner.factor

    check(f, x(), backend=backend, fullgraph=True)


def test_the_mode_is_guarded():
    def f(x, mode):
        with mode:
            return torch.sin(x)

    lifted = framelift.compile(f, backend="eager", fullgraph=True)
    for factor in (2.0, 3.0, 2.0):
        assert torch.equal(lifted(x(), Scaling(factor)), f(x(), Scaling(factor)))


def test_a_break_in_a_mode():
    def f(x):
        y = x + 1
        with Scaling(2.0):
            z = torch.sin(y)
            framelift.graph_break()
            z = torch.sin(z)
        return torch.sin(z), y

    lifted = framelift.compile(f, backend="eager")
    for _ in range(2):
        assert all(map(torch.equal, lifted(x()), f(x())))
    assert not torch._C._len_torch_function_stack()


def test_an_error_in_a_mode():
    def f(x):
        try:
            with Scaling(2.0):
                y = torch.sin(x)
                raise KeyError(1)
        except KeyError:
            return torch.sin(y)

    check(f, x(), fullgraph=True)


def test_duck_types_in_a_mode():
    def f(x, d):
        with Scaling(2.0):
            return torch.cos(d).value, torch.add(x, d).value

    lifted = framelift.compile(f, backend="eager")
    assert all(map(torch.equal, lifted(x(), Duck(x())), f(x(), Duck(x()))))


# -- what is about the very tensor -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["unsqueeze_", "resize_", "squeeze_", "t_"])
def test_other_metadata_in_place(name):
    def f(p):
        y = p * 2
        getattr(p, name)(*((0,) if name == "unsqueeze_" else ((2,),) if name == "resize_" else ()))
        return y, p.shape, p

    check(f, inputs=lambda: (of(Plain),), expect_breaks=None, deterministic=False)


def test_hooks_and_gradients_of_its_own():
    def f(p, seen):
        y = p * 2
        p.register_hook(lambda gradient: seen.append(1))
        return y, p.is_leaf, p.grad, p.requires_grad

    lifted = framelift.compile(f, backend="eager")
    for _ in range(2):
        results = []
        for function in (f, lifted):
            p, seen = of(Plain).requires_grad_(), []
            y, *facts = function(p, seen)
            y.sum().backward()
            (p * 1).sum().backward()
            results.append((facts, len(seen), p.grad.as_subclass(torch.Tensor).tolist()))
        assert results[0] == results[1]


@pytest.mark.parametrize("backend", [*BACKENDS, "inductor"])
def test_inputs_keep_their_class(backend):
    def f(x, w):
        return x.as_subclass(Plain), w.as_subclass(Plain), (x * 2).as_subclass(Plain).as_subclass(torch.Tensor)

    lifted = framelift.compile(f, backend=backend, fullgraph=True)
    for _ in range(2):
        a, w = x(), nn.Parameter(x())
        results = lifted(a, w)
        assert [type(each) for each in results] == [type(each) for each in f(a, w)]
        assert (type(a), type(w)) == (torch.Tensor, nn.Parameter)


def test_shown_in_a_mode():
    class Counting(TorchFunctionMode):
        def __init__(self):
            super().__init__()
            self.calls = 0

        def __torch_function__(self, func, types, args=(), kwargs=None):
            self.calls += 1
            return func(*args, **(kwargs or {}))

    def f(x):
        with Counting() as mode:
            y = x + 1
            text = f"{y.sum():.1f}", str(y), repr(y)
            number = [1, 2, 3][(y.long()[0] - 1)]
        return text, number, mode.calls, y

    check(f, x(), expect_breaks=None, deterministic=False)
