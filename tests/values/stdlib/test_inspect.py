"""Signatures: arguments bound by them, annotations, and the module of classes of C, which annotations ask for."""

from __future__ import annotations

import functools
import inspect
import re
import typing
from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift
from tests.helpers import check

X = torch.arange(3.0)


def scaled(v: torch.Tensor, scale: float = 1.5, *, bias: int = 0) -> torch.Tensor:
    return v * scale + bias


SIGNATURE = inspect.signature(scaled)


def doubling(function: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(function)

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        bound.arguments["scale"] *= 2
        return function(*bound.args, **bound.kwargs)

    return wrapped


def test_a_decorator_that_binds() -> None:
    check(lambda x: doubling(scaled)(x, bias=2), X, fullgraph=True)


def test_a_signature_that_was_there_before() -> None:
    def f(x: torch.Tensor) -> Any:
        bound = SIGNATURE.bind(x, bias=1)
        bound.apply_defaults()
        return scaled(*bound.args, **bound.kwargs), list(bound.arguments)

    check(f, X, fullgraph=True)


def test_binding_of_what_does_not_fit() -> None:
    def f(x: torch.Tensor) -> Any:
        found = []
        for args, kwargs in (((), {}), ((1, 2, 3), {}), ((1,), {"other": 2}), ((1,), {"v": 2})):
            try:
                inspect.signature(scaled).bind(*args, **kwargs)
            except TypeError as error:
                found.append(str(error))
        return x + 1, found, dict(inspect.signature(scaled).bind_partial(scale=2).arguments)

    check(f, X, fullgraph=True)


def test_annotations() -> None:
    def f(x: torch.Tensor) -> Any:
        def local(a: int, b=2) -> str: ...  # type: ignore[no-untyped-def, empty-body]

        signature = inspect.signature(local)
        kinds = [parameter.annotation for parameter in signature.parameters.values()]
        return x + 1, kinds, signature.return_annotation, int.__module__, kinds[1] is inspect.Parameter.empty

    check(f, X, fullgraph=True)


class Shown:
    """Its class says that it is from the standard library."""

    shown: typing.ClassVar[list[int]] = []

    def __repr__(self) -> str:
        self.shown.append(1)
        return "Shown()"


Shown.__module__ = "typing"


def annotated(a: Any): ...  # type: ignore[no-untyped-def]


annotated.__annotations__ = {"a": Shown()}


def test_annotations_of_classes_that_say_they_are_from_elsewhere() -> None:
    def f(x: torch.Tensor) -> Any:
        return x + 1, str(inspect.signature(annotated))

    lifted = framelift.compile(f, backend="eager")
    Shown.shown.clear()
    assert [lifted(X)[1] for _ in range(3)] == ["(a: Shown())"] * 3
    assert len(Shown.shown) == 3


def test_type_hints() -> None:
    class Config:
        width: int
        name: str

    check(lambda x: (x + 1, typing.get_type_hints(Config)), X, fullgraph=True)


def test_a_changed_default_or_annotation_is_seen() -> None:
    def function(a: int, b: int = 2) -> None: ...

    def f(x: torch.Tensor) -> Any:
        bound = inspect.signature(function).bind(1)
        bound.apply_defaults()
        return x * bound.arguments["b"], inspect.signature(function).parameters["a"].annotation

    lifted = framelift.compile(f, backend="eager", fullgraph=True)
    for change in (lambda: None, lambda: setattr(function, "__defaults__", (5,))):
        change()
        assert torch.equal(lifted(X)[0], f(X)[0])
    function.__annotations__["a"] = float
    assert lifted(X)[1] is float


class Partially:
    def scale(self, v: Any, by: Any, plus: Any = 1) -> Any:
        return v * by + plus

    def nothing() -> None:  # type: ignore[misc]
        pass

    doubled = functools.partialmethod(scale, by=2)
    broken = functools.partialmethod(nothing)


def test_partial_methods_have_a_signature_of_their_own() -> None:
    def program(x: Any) -> Any:
        x = x + 1
        try:
            inspect.signature(Partially.broken)
        except ValueError:
            return x, str(inspect.signature(Partially.doubled)), str(inspect.signature(Partially().doubled))
        return x

    check(program, X, expect_breaks=None)


def test_modules_of_methods_of_c() -> None:
    def program(x: Any) -> Any:
        methods = (dict.fromkeys, [].append, list.append, dict.__dict__["fromkeys"], len, [].__len__)
        return x + 1, [getattr(method, "__module__", "none") for method in methods]

    check(program, X, expect_breaks=None)


def logged(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)

    return wrapper


@logged
@logged
def wrapped_twice(a, b: int = 2, *, c=3) -> int:
    return a


class Layer:
    @logged
    def __init__(self, size, *, bias=True):
        self.size = size

    def __call__(self, z, scale=2):
        return z

    @logged
    def method(self, a, *rest):
        return a


class Forwards:
    """Has any attribute."""

    def __getattr__(self, name):
        return wrapped_twice

    def __call__(self, z):
        return z


LAYER = Layer(3)


@pytest.mark.parametrize("called", [wrapped_twice, Layer, LAYER, LAYER.method, Layer.method, Layer.__call__])
def test_of_what_is_wrapped_or_called(called) -> None:
    def fn(x):
        signature = inspect.signature(called)
        kinds = [(name, parameter.kind.name) for name, parameter in signature.parameters.items()]
        return x + len(signature.parameters), kinds, str(signature)

    check(fn, X, fullgraph=True)


def test_of_an_object_with_any_attribute() -> None:
    def fn(x):
        return x + len(inspect.signature(Forwards()).parameters)

    lifted = framelift.compile(fn, backend="eager")
    for _ in range(2):
        try:
            expected = fn(X)
        except TypeError as error:
            with pytest.raises(TypeError, match=re.escape(str(error))):
                lifted(X)
        else:
            assert torch.equal(lifted(X), expected)


def test_another_wrapped_function_is_seen() -> None:
    made = logged(wrapped_twice)

    def fn(x):
        return x + len(inspect.signature(made).parameters)

    lifted = framelift.compile(fn, backend="eager")
    assert torch.equal(lifted(X), X + 3)
    made.__wrapped__ = LAYER.__call__
    assert torch.equal(lifted(X), fn(X))
    del made.__wrapped__
    assert torch.equal(lifted(X), X + 2)


def given(a, /, b: int = 2, *args, c, d="x", **kw) -> float: ...


NAMED = functools.update_wrapper(functools.partial(given, 1), given)


@pytest.mark.parametrize(
    "made",
    [
        lambda: functools.partial(given, 1),
        lambda: functools.partial(given, 1, c=3),
        lambda: functools.partial(given, b=4),
        lambda: functools.partial(given, 1, 2, 3, a=4, other=5),
        lambda: functools.partial(functools.partial(given, 1), 2, d=[3]),
        lambda: functools.partial(LAYER.method, 1),
        lambda: functools.partial(LAYER, scale=3),
        lambda: functools.partial(Layer, bias=False),
        lambda: functools.partial(wrapped_twice, b=3),
        lambda: NAMED,
    ],
)
def test_of_partials(made) -> None:
    outside = made()

    def fn(x):
        inside = inspect.signature(made())
        bound = inside.bind_partial(c=5) if "c" in inside.parameters else None
        outer = inspect.signature(outside)
        kinds = [(each.name, each.kind.name, each.default, each.annotation) for each in outer.parameters.values()]
        return x + len(inside.parameters), kinds, str(inside), str(outer), outer, bound and bound.arguments

    check(fn, X, fullgraph=True)


def test_of_partials_whose_arguments_do_not_fit() -> None:
    def fn(x):
        texts = []
        for made in (functools.partial(wrapped_twice, 1, a=2), functools.partial(LAYER, 1, 2, 3)):
            try:
                inspect.signature(made)
            except ValueError as error:
                texts.append(type(error.__cause__).__name__)
        return x + 1, texts

    check(fn, X, expect_breaks=None)


def test_another_argument_of_a_partial_is_seen() -> None:
    made = functools.partial(given, 1, c=3)

    def fn(x):
        return x + inspect.signature(made).parameters["c"].default

    lifted = framelift.compile(fn, backend="eager", fullgraph=True)
    assert torch.equal(lifted(X), X + 3)
    made.keywords["c"] = 4
    assert torch.equal(lifted(X), X + 4)
    made.__setstate__((given, (1,), {"c": 5}, None))
    assert torch.equal(lifted(X), X + 5)


class Says:
    __signature__ = inspect.signature(scaled)

    def __init__(self, size):
        self.size = size


class SaysToo:
    def __init__(self, size):
        self.size = size


SaysToo.__wrapped__ = scaled


def test_of_a_class_that_says_otherwise() -> None:
    def fn(x):
        return x + 1, str(inspect.signature(Says)), str(inspect.signature(SaysToo))

    check(fn, X, expect_breaks=None)
