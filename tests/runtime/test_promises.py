"""What a program promises of callables: `assume_constant_result` and `allow_in_graph`, framelift's and torch's."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import framelift
from tests.helpers import check

X = torch.tensor([0.5, 2.0])
CONSTANT = [
    framelift.assume_constant_result,
    torch.compiler.assume_constant_result,
    torch._dynamo.assume_constant_result,
]
IN_GRAPH = [framelift.allow_in_graph, torch.compiler.allow_in_graph, torch._dynamo.allow_in_graph]
OWNER = ["framelift", "torch.compiler", "torch._dynamo"]


class Recording:
    """A backend that keeps what graphs call."""

    def __init__(self) -> None:
        self.targets: list[Any] = []

    def __call__(self, graph_module: Any, inputs: Any) -> Any:
        self.targets += [
            node.target
            for node in graph_module.graph.nodes
            if node.op.startswith("call") and node.target is not torch._assert
        ]
        return graph_module.forward


def lift(function: Callable[..., Any], **options: Any) -> tuple[Any, Recording]:
    recording = Recording()
    return framelift.compile(function, backend=recording, **{"fullgraph": True, **options}), recording


def names(recording: Recording) -> list[str]:
    return [getattr(target, "__name__", target) for target in recording.targets]


# -- assume_constant_result ------------------------------------------------------------------------------------------


class Counted:
    """Something that is called, and counts; nothing that framelift could trace, where it asks for the time of day."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def __call__(self, *args: Any, **kwargs: Any) -> float:
        self.calls.append((args, kwargs))
        return len(open(__file__).read()) * 0 + 2.5

    def method(self, *args: Any) -> float:
        return self(*args)


@pytest.mark.parametrize("promise", CONSTANT, ids=OWNER)
def test_constant_function(promise: Any) -> None:
    counted = Counted()

    @promise
    def constant(number: int, *, name: str = "") -> Any:
        return counted(number, name=name)

    lifted, recording = lift(lambda x: x * constant(3, name="a") + constant(4))
    for _ in range(3):
        assert torch.equal(lifted(X), X * 2.5 + 2.5)
    assert counted.calls == [((3,), {"name": "a"}), ((4,), {"name": ""})]
    assert names(recording) == ["mul", "add"]


@pytest.mark.parametrize("promise", CONSTANT, ids=OWNER)
def test_constant_method(promise: Any) -> None:
    class Config:
        def __init__(self, size: float) -> None:
            self.counted, self.size = Counted(), size

        @promise
        def get(self, name: str) -> float:
            return self.counted(name) * self.size

    first, second = Config(1.0), Config(2.0)
    lifted, _ = lift(lambda x, config: x * config.get("size"))
    for _ in range(2):
        assert torch.equal(lifted(X, first), X * 2.5)
        assert torch.equal(lifted(X, second), X * 5.0)
    assert len(first.counted.calls) == len(second.counted.calls) == 1


def _bound() -> Any:
    counted = Counted()
    return counted, framelift.assume_constant_result(counted.method)


def _object() -> Any:
    counted = Counted()
    return counted, framelift.assume_constant_result(counted)


def _partial() -> Any:
    counted = Counted()
    return counted, framelift.assume_constant_result(functools.partial(counted, 3))


def _partial_for_torch() -> Any:
    counted = Counted()
    return counted, torch.compiler.assume_constant_result(functools.partial(counted, 3))


def _called_decorator() -> Any:
    counted = Counted()
    return counted, framelift.assume_constant_result()(lambda number: counted(number))


def _lifted() -> Any:
    counted = Counted()
    return counted, framelift.assume_constant_result(framelift.compile(lambda number: counted(number), backend="eager"))


@pytest.mark.parametrize(
    "made", [_bound, _object, _partial, _partial_for_torch, _called_decorator, _lifted], ids=lambda made: made.__name__
)
def test_constant_of_other_kinds(made: Any) -> None:
    counted, target = made()
    lifted, _ = lift(lambda x: x * target(7))
    for _ in range(3):
        assert torch.equal(lifted(X), X * 2.5)
    assert len(counted.calls) == 1


def test_constant_class() -> None:
    made: list[int] = []

    @framelift.assume_constant_result
    class Settings:
        def __init__(self, number: int) -> None:
            made.append(number)
            self.number = len(open(__file__).read()) * 0 + number

    lifted, _ = lift(lambda x: x * Settings(3).number)
    for _ in range(3):
        assert torch.equal(lifted(X), X * 3)
    assert made == [3]


def test_constant_builtin(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    import os

    (tmp_path / "one").write_text("")
    listed = framelift.assume_constant_result(os.listdir)
    lifted, _ = lift(lambda x: x * len(listed(path)))
    path = str(tmp_path)
    assert torch.equal(lifted(X), X)
    (tmp_path / "two").write_text("")
    assert torch.equal(lifted(X), X)


def test_constant_of_a_tensor() -> None:
    @framelift.assume_constant_result
    def is_one(flag: torch.Tensor) -> bool:
        return flag[0].item() == 1

    lifted, _ = lift(lambda x, flag: x + 2 if is_one(flag) else x + 1)
    assert torch.equal(lifted(X, torch.tensor([1])), X + 2)
    assert torch.equal(lifted(X, torch.tensor([1])), X + 2)
    assert framelift.counters().captures == 1


def test_constant_results_of_all_kinds() -> None:
    table, weight = {"a": [1, (2, 3)]}, torch.ones(2)

    class Holder:
        value = 4

    holder = Holder()
    both, mutable = (table, [1]), [[1], {1, 2}, bytearray(b"a")]
    for result in (None, 3, "text", table, holder, weight, torch.float64, Holder, math.sin, both, *mutable):
        counted = Counted()
        constant = framelift.assume_constant_result(lambda: (counted(), result)[1])
        lifted, _ = lift(lambda x: (x + 1, constant()))
        for _ in range(2):
            assert lifted(X)[1] is result
        assert len(counted.calls) == 1


def test_constant_that_is_written_to() -> None:
    """What the program writes to it stays, as each call gives the same object."""
    table: dict[str, int] = {}
    constant = framelift.assume_constant_result(lambda: (Counted()(), table)[1])

    def function(x: torch.Tensor) -> torch.Tensor:
        found = constant()
        found["calls"] = found.get("calls", 0) + 1
        return x * found["calls"]

    lifted, _ = lift(function)
    for number in range(1, 5):
        assert torch.equal(lifted(X), X * number) and table == {"calls": number}


def test_constant_tensor_in_the_graph() -> None:
    weight = torch.tensor([2.0, 3.0])
    shared = framelift.assume_constant_result(lambda: weight)
    made = framelift.assume_constant_result(lambda: torch.tensor([2.0, 3.0]))
    both = framelift.assume_constant_result(lambda: {"weights": [weight, torch.tensor([2.0, 3.0])], "power": 2})

    for function in (
        lambda x: x * shared(),
        lambda x: x * made(),
        lambda x: x * both()["weights"][0] ** both()["power"] + both()["weights"][1],
    ):
        lifted, _ = lift(function)
        for _ in range(3):
            assert torch.equal(lifted(X), function(X))
        assert framelift.counters().captures == 1
        framelift.reset()
    lifted, _ = lift(lambda x: x * shared())
    lifted(X)
    weight.add_(1)
    assert torch.equal(lifted(X), X * weight)


def test_a_constant_tensor_that_is_written_to() -> None:
    """What the function makes is new each time, and what others have is theirs: as in eager."""
    weight = torch.ones(2)
    from_numpy = functools.partial(torch.from_numpy, weight.numpy())

    def run(constant: Callable[[], torch.Tensor]) -> Callable[[torch.Tensor], torch.Tensor]:
        return lambda x: constant().add_(x).clone()

    for make in (lambda: torch.ones(2), lambda: weight, lambda: weight.data, lambda: weight.view(2), from_numpy):
        values = []
        for function in (run(make), lift(run(framelift.assume_constant_result(make)))[0]):
            weight.fill_(1)
            values.append([(function(X), weight.clone()) for _ in range(3)])
        for (expected, weight_expected), (found, weight_found) in zip(*values, strict=True):
            assert torch.equal(found, expected)
            assert torch.equal(weight_found, weight_expected)


def test_constant_containers_are_those_of_the_program() -> None:
    """A list that somebody else has is changed, a new one is a new one each time."""
    table: dict[str, Any] = {"count": 1, "seen": [1]}
    shared = framelift.assume_constant_result(lambda: table)
    partly = framelift.assume_constant_result(lambda: (table["seen"], [1]))
    made = framelift.assume_constant_result(lambda: {"count": 1, "seen": [1]})

    def changes(get: Callable[[], Any]) -> Callable[[torch.Tensor], Any]:
        def function(x: torch.Tensor) -> Any:
            found = get()
            found["count"] += 1
            found["seen"].append(2)
            return x * found["count"], found is table

        return function

    def adds(x: torch.Tensor) -> Any:
        first, second = partly()
        first.append(3)
        second.append(3)
        return x * len(first), list(second), first is table["seen"]

    for function in (changes(shared), changes(made), adds):
        results = []
        for called in (function, lift(function)[0]):
            table.update(count=1, seen=[1])
            calls = [called(X) for _ in range(3)]
            results.append([(value.tolist(), *more) for value, *more in calls] + [repr(table)])
        assert results[0] == results[1]
    framelift.reset()
    lifted, _ = lift(changes(made))
    assert [lifted(X)[0].tolist() for _ in range(3)] == [[1.0, 4.0]] * 3
    assert framelift.counters().captures == 1


def test_what_depends_on_the_graph_is_traced() -> None:
    @framelift.assume_constant_result
    def size_and_sum(x: torch.Tensor) -> Any:
        return x.shape[0] * x.sum()

    check(lambda x: size_and_sum(x + 1), X)


def test_constant_that_raises() -> None:
    @framelift.assume_constant_result
    def fails(number: int) -> int:
        raise KeyError(number)

    def function(x: torch.Tensor) -> torch.Tensor:
        try:
            return x * fails(3)
        except KeyError as error:
            return x + error.args[0]

    lifted, _ = lift(function, fullgraph=False)
    for _ in range(2):
        assert torch.equal(lifted(X), X + 3)


def test_a_wrapper_of_a_constant_function_is_not_constant() -> None:
    """functools.wraps copies torch's mark."""
    seen: list[int] = []

    @torch.compiler.assume_constant_result
    def constant() -> int:
        return 3

    @functools.wraps(constant)
    def counts() -> int:
        seen.append(1)
        return constant() + len(seen)

    lifted, _ = lift(lambda x: x * counts())
    assert [lifted(X)[0].item() for _ in range(3)] == [2.0, 2.5, 3.0]


def test_promises_are_for_the_very_object() -> None:
    def function() -> int:
        return 1

    framelift.assume_constant_result(function)
    key = id(function)
    del function
    others = [lambda: 2 for _ in range(100)]
    assert all(framelift.controls.promise_of(other) is None for other in others)
    assert key not in framelift.controls._PROMISES._kept


@pytest.mark.parametrize("promise", [framelift.assume_constant_result, framelift.allow_in_graph])
def test_of_what_cannot_be_called(promise: Any) -> None:
    with pytest.raises(TypeError, match=r"was given 3: a callable is needed"):
        promise(3)


# -- allow_in_graph --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("promise", IN_GRAPH, ids=OWNER)
def test_function_in_the_graph(promise: Any) -> None:
    @promise
    def operation(x: torch.Tensor, power: int, *, more: list[torch.Tensor]) -> torch.Tensor:
        return x.sin() ** power + more[0]

    def function(x: torch.Tensor) -> torch.Tensor:
        return operation(x, 2, more=[x + 1]) - 1

    lifted, recording = lift(function)
    assert torch.equal(lifted(X), function(X))
    assert recording.targets[1] is operation and len(recording.targets) == 3
    check(function, X.clone().requires_grad_())
    for backend in ("eager", "aot_eager"):
        given = X.clone().requires_grad_()
        framelift.compile(function, backend=backend, fullgraph=True)(given).sum().backward()
        expected = X.clone().requires_grad_()
        function(expected).sum().backward()
        assert torch.equal(given.grad, expected.grad)  # type: ignore[arg-type]


def test_several_results() -> None:
    @framelift.allow_in_graph
    def both(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x.sin(), x.cos()

    def function(x: torch.Tensor) -> torch.Tensor:
        first, second = both(x)
        return first - second

    _, recording = lifted = lift(function)
    assert torch.equal(lifted[0](X), function(X))
    assert recording.targets[0] is both


class Adder:
    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return x.sin() + 1

    def method(self, x: torch.Tensor) -> torch.Tensor:
        return x.sin() + 1


@pytest.mark.parametrize(
    ("target", "called"),
    [
        (functools.partial(torch.add, other=1), "partial"),
        (Adder(), "Adder"),
        (lambda x: x.sin() + 1, "operation"),
        (torch.sin, "sin"),
    ],
    ids=["partial", "object", "lambda", "builtin"],
)
def test_other_kinds_in_the_graph(target: Any, called: str) -> None:
    assert framelift.allow_in_graph(target) is target
    lifted, recording = lift(lambda x: target(x) * 2)
    assert torch.equal(lifted(X), target(X) * 2)
    assert names(recording) == [called, "mul"]


def test_methods_and_modules_are_traced_where_the_graph_cannot_take_them() -> None:
    adder, module = Adder(), nn.Linear(2, 2)
    framelift.allow_in_graph([adder.method, module])
    check(lambda x: adder.method(x) * module(x), X)


def test_what_the_graph_cannot_take_is_traced() -> None:
    @framelift.allow_in_graph
    def operation(x: torch.Tensor, how: dict[str, Any], then: Any) -> torch.Tensor:
        return then(x * how["factor"])

    check(lambda x: operation(x, {"factor": 3}, torch.sin), X)


def test_results_that_are_no_tensors() -> None:
    @framelift.allow_in_graph
    def operation(x: torch.Tensor) -> dict[str, Any]:
        return {"y": x + 1, "name": "y"}

    check(lambda x: operation(x), X)


def test_what_fakes_cannot_run_runs_in_python() -> None:
    @framelift.allow_in_graph
    def operation(x: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(x.detach().numpy() * 2)

    check(lambda x: operation(x + 1) - 1, X, expect_breaks=None)


def test_a_list_of_functions() -> None:
    def one(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    def two(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    assert framelift.allow_in_graph([one, two]) == [one, two]
    lifted, recording = lift(lambda x: one(two(x)))
    assert torch.equal(lifted(X), X * 2 + 1)
    assert recording.targets == [two, one]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_writes_and_errors_in_the_graph(backend: str) -> None:
    @framelift.allow_in_graph
    def writes(x: torch.Tensor) -> torch.Tensor:
        return x.add_(1)

    @framelift.allow_in_graph
    def raises(x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] > 2:
            raise ValueError("too long")
        return x

    def function(x: torch.Tensor) -> Any:
        written = writes(x)
        return written * 2, written is x

    given = X.clone()
    result, same = framelift.compile(function, backend=backend)(given)
    assert torch.equal(given, X + 1) and torch.equal(result, (X + 1) * 2) and same
    with pytest.raises(ValueError, match="too long"):
        framelift.compile(lambda x: raises(x) + 1, backend=backend)(torch.ones(3))


def test_inplace_and_views_are_seen() -> None:
    @framelift.allow_in_graph
    def first(x: torch.Tensor) -> torch.Tensor:
        return x[:1]

    def function(x: torch.Tensor) -> torch.Tensor:
        view = first(x)
        view.add_(5)
        return x * 2

    check(function, X)


def test_a_graph_break_of_torch_in_it_is_none() -> None:
    """The front end does not look inside."""

    @framelift.allow_in_graph
    def operation(x: torch.Tensor) -> torch.Tensor:
        framelift.graph_break()
        return x + 1

    lifted, recording = lift(lambda x: operation(x) * 2)
    assert torch.equal(lifted(X), (X + 1) * 2) and recording.targets[0] is operation


# -- nested_compile_region of torch ----------------------------------------------------------------------------------


def test_regions_are_traced() -> None:
    @torch.compiler.nested_compile_region
    def region(x: torch.Tensor, factor: int) -> torch.Tensor:
        return x.sin() * factor

    assert len(check(lambda x: region(x, 2) + region(x + 1, 3), X).graphs) == 1


def test_a_wrapper_of_a_region_runs() -> None:
    seen: list[int] = []

    @torch.compiler.nested_compile_region
    def region(x: torch.Tensor) -> torch.Tensor:
        return x.sin()

    @functools.wraps(region)
    def wrapper(x: torch.Tensor) -> torch.Tensor:
        seen.append(1)
        return region(x) + 1

    lifted, _ = lift(lambda x: wrapper(x))
    assert torch.equal(lifted(X), X.sin() + 1) and torch.equal(lifted(X), X.sin() + 1)
    assert seen == [1, 1]
