"""The public functions: what they accept, what they return, and what they say about bad input."""

import functools
import operator
import types
import warnings

import pytest
import torch

import framelift
from framelift.controls import disabled_mark
from framelift.native import _core


def double(x):
    """Twice x."""
    return x + x


class Adder:
    def __init__(self, n):
        self.n = n

    def __call__(self, x):
        return x + self.n

    def method(self, x, times=1):
        return x + self.n * times


X = torch.ones(2)


def test_function_keeps_its_identity_papers():
    lifted = framelift.compile(double, backend="eager")
    assert isinstance(lifted, _core.Lifted)
    assert (lifted.__name__, lifted.__doc__, lifted.__wrapped__) == ("double", "Twice x.", double)
    assert torch.equal(lifted(X), X + X)


def test_decorator_with_and_without_arguments():
    @framelift.compile(backend="eager")
    def one(x):
        return x + 1

    assert torch.equal(one(X), X + 1)
    assert isinstance(framelift.compile(double), _core.Lifted)


def test_bound_method():
    lifted = framelift.compile(Adder(3).method, backend="eager")
    assert isinstance(lifted, types.MethodType)
    assert torch.equal(lifted(X, times=2), X + 6)


def test_function_in_a_class_body_binds():
    class Owner:
        @framelift.compile(backend="eager")
        def method(self, x):
            return x + self.n

        @staticmethod
        @framelift.compile(backend="eager")
        def static(x):
            return x + 1

        @framelift.compile(backend="eager")
        @staticmethod
        def other_static(x):
            return x + 2

    owner = Owner()
    owner.n = 5
    assert torch.equal(owner.method(X), X + 5)
    assert torch.equal(owner.static(X), X + 1)
    assert torch.equal(Owner.other_static(X), X + 2)


@pytest.mark.parametrize(
    "target, args",
    [
        (Adder(2), (X,)),
        (torch.sin, (X,)),
        (torch.ops.aten.cos, (X,)),
        (operator.add, (X, 1)),
        (functools.partial(torch.add, alpha=2), (X, X)),
        (functools.partial(double), (X,)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_other_callables(target, args):
    assert torch.equal(framelift.compile(target, backend="eager")(*args), target(*args))


def test_builtins_do_not_share_code():
    sine, cosine = framelift.compile(torch.sin, backend="eager"), framelift.compile(torch.cos, backend="eager")
    assert sine.__wrapped__.__code__ is not cosine.__wrapped__.__code__
    assert sine.__name__ == "sin"


def test_class_has_its_calls_lifted():
    @framelift.compile(backend="eager")
    class Callable:
        def __call__(self, x):
            return x + 1

    assert isinstance(Callable, type)
    assert torch.equal(Callable()(X), X + 1)


def test_lifted_is_not_lifted_twice():
    lifted = framelift.compile(double, backend="eager")
    again = framelift.compile(lifted, backend="eager")
    assert again.__wrapped__ is double
    module = framelift.compile(torch.nn.Linear(2, 2), backend="eager")
    assert framelift.compile(module, backend="eager") is module
    other = framelift.compile(module, backend="eager", dynamic=True)
    assert other is not module and other._orig_mod is module._orig_mod


def test_disable_argument_returns_the_callable():
    assert framelift.compile(double, disable=True) is double
    assert framelift.compile(disable=True)(double) is double
    module = torch.nn.Linear(2, 2)
    assert framelift.compile(module, disable=True) is module


def test_optimize_as_decorator_and_context_manager():
    assert torch.equal(framelift.optimize("eager")(double)(X), X + X)
    block = framelift.optimize("eager")
    with block, block:
        assert torch.equal(double(X), X + X)
    assert framelift.optimize("eager", disable=True)(double) is double
    with framelift.optimize("eager", disable=True):
        assert torch.equal(double(X), X + X)


def test_equal_options_are_one_key():
    make = lambda **given: framelift.api.make_lifting(**{"backend": "eager", **given}).options
    assert make() == make() and hash(make()) == hash(make())
    assert make(dynamic=True) != make() != make(fullgraph=True)
    backend = lambda gm, inputs: gm.forward
    assert make(backend=backend) == make(backend=backend) != make(backend=lambda gm, inputs: gm.forward)


def test_disable_marks_the_function_and_runs_it():
    @framelift.disable(reason="because")
    def plain(x):
        return x + 1

    mark = disabled_mark(plain)
    assert mark.recursive and mark.reason == "because"
    assert torch.equal(plain(X), X + 1) and plain.__name__ == "plain"

    @functools.wraps(plain)
    def wrapper(x):
        return plain(x)

    assert disabled_mark(wrapper) is None


def test_disable_without_recursion_marks_in_place():
    def plain(x):
        return x + 1

    assert framelift.disable(plain, recursive=False) is plain
    assert not disabled_mark(plain).recursive


def test_disable_of_methods_modules_and_classes():
    assert torch.equal(framelift.disable(Adder(3).method)(X), X + 3)
    module = torch.nn.Linear(2, 2)
    assert torch.equal(framelift.disable(module)(X), module(X))

    @framelift.disable
    class Silent:
        def __call__(self, x):
            return x

    assert disabled_mark(Silent.__call__) and Silent()(1) == 1


def test_a_callable_object_is_called_as_its_class_says_now():
    class Scaled:
        factor = 2

        def __call__(self, x, by=1):
            return x * self.factor * by

    scaled = Scaled()
    lifted = framelift.compile(scaled, backend="eager", fullgraph=True)
    for change in ({}, {"factor": 3}, {"__call__": lambda self, x, by=1: x - by}, {"__call__": Scaled.__call__}):
        for name, value in change.items():
            setattr(Scaled, name, value)
        assert torch.equal(lifted(X, by=3), scaled(X, by=3))
        assert torch.equal(lifted(X), scaled(X))


def test_controls_in_eager():
    assert framelift.is_compiling() is False
    assert framelift.graph_break() is None
    assert framelift.graph_break("a reason") is None
    with pytest.raises(TypeError, match="a str is needed"):
        framelift.graph_break(3)


def test_names_are_listed():
    assert set(framelift.__all__) <= set(dir(framelift))
    for name in framelift.__all__:
        assert getattr(framelift, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'complie'"):
        framelift.complie


BAD_INPUT = {
    "not callable": (lambda: framelift.compile(3), TypeError, "compile() was given 3 of type int"),
    "backend's name": (lambda: framelift.compile("eager"), TypeError, "compile(backend='eager')"),
    "string": (lambda: framelift.compile("hello"), TypeError, "a function, a method, an nn.Module"),
    "classmethod": (lambda: framelift.compile(classmethod(double)), TypeError, "put @classmethod above"),
    "class": (lambda: framelift.compile(type("Plain", (), {})), TypeError, "the class Plain was given"),
    "unknown backend": (lambda: framelift.compile(double, backend="eagr"), ValueError, "did you mean 'eager'?"),
    "backend's type": (lambda: framelift.compile(double, backend=3), TypeError, "backend is 3"),
    "backend class": (lambda: framelift.compile(double, backend=Adder), TypeError, "backend is the class Adder"),
    "unknown mode": (
        lambda: framelift.compile(double, mode="max-autotne"),
        ValueError,
        "unknown mode 'max-autotne': did you mean 'max-autotune'?",
    ),
    "mode's type": (lambda: framelift.compile(double, mode=3), TypeError, "mode is 3"),
    "mode and options": (
        lambda: framelift.compile(double, mode="default", options={"max_autotune": True}),
        ValueError,
        "were both given",
    ),
    "options' type": (lambda: framelift.compile(double, options=[1]), TypeError, "options is [1]"),
    "options' key": (lambda: framelift.compile(double, options={1: 2}), TypeError, "options has the key 1"),
    "unknown option": (
        lambda: framelift.compile(double, options={"max_autotun": True}),
        ValueError,
        "'max_autotune'",
    ),
    "dynamic": (lambda: framelift.compile(double, dynamic="yes"), TypeError, "dynamic is 'yes'"),
    "dynamic int": (lambda: framelift.compile(double, dynamic=1), TypeError, "dynamic is 1"),
    "fullgraph": (lambda: framelift.compile(double, fullgraph=1), TypeError, "fullgraph is 1"),
    "disable": (lambda: framelift.compile(double, disable=1), TypeError, "disable is 1"),
    "optimize": (lambda: framelift.optimize("indctor"), ValueError, "did you mean 'inductor'?"),
    "disable()": (lambda: framelift.disable(3), TypeError, "disable() was given 3"),
    "explain()": (lambda: framelift.explain(3), TypeError, "explain() was given 3"),
    "export()": (lambda: framelift.export(3), TypeError, "export() was given 3"),
    "set_logs": (lambda: framelift.set_logs("gaurds"), ValueError, "unknown log 'gaurds': did you mean 'guards'?"),
    "set_logs type": (lambda: framelift.set_logs(3), TypeError, "set_logs() was given 3"),
    "set_logs switch": (lambda: framelift.set_logs(guards=1), TypeError, "set_logs(guards=...) is 1"),
}


@pytest.mark.parametrize("case", BAD_INPUT)
def test_bad_input_is_one_line(case):
    call, error, words = BAD_INPUT[case]
    with pytest.raises(error) as caught:
        call()
    message = str(caught.value)
    assert words in message
    assert "\n" not in message and len(message) < 400


def test_torchscript_is_refused():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch says in one way or another that TorchScript is out of date
        scripted = torch.jit.trace(double, X)
        module = torch.jit.trace(torch.nn.Linear(2, 2), X)
    for target in (scripted, module):
        with pytest.raises(TypeError, match="TorchScript has no Python code to lift"):
            framelift.compile(target)
