"""Changes of torch's global state are seen."""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from tests.soundness.scenario import ANY, EAGER, HIT, MISS, Scenarios, Steps, X, play

scenario = Scenarios()


@scenario
def grad_mode() -> Steps:
    def f(x: Any) -> Any:
        y = x * 2
        return y.detach(), y.requires_grad, torch.is_grad_enabled()

    x = torch.ones(2, requires_grad=True)
    yield f, (x,)
    with torch.no_grad():
        yield MISS
    yield HIT
    with torch.inference_mode():
        yield MISS
    yield HIT


@scenario
def default_dtype() -> Steps:
    yield (lambda x: torch.ones(2) + x.sum()), (X,)
    torch.set_default_dtype(torch.float64)
    try:
        yield MISS
    finally:
        torch.set_default_dtype(torch.float32)
    yield HIT


@scenario
def autocast() -> Steps:
    def f(x: Any) -> Any:
        return x @ x

    square = torch.ones(2, 2)
    yield f, (square,)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        yield MISS
        with torch.autocast("cpu", enabled=False):
            yield HIT
        with torch.autocast("cpu", dtype=torch.float16):
            yield MISS
    yield HIT


@scenario
def deterministic_algorithms() -> Steps:
    yield (lambda x: x * 2 if torch.are_deterministic_algorithms_enabled() else x * 3), (X,)
    torch.use_deterministic_algorithms(True)
    try:
        yield MISS
    finally:
        torch.use_deterministic_algorithms(False)
    yield HIT


@scenario
def default_device() -> Steps:
    yield (lambda x: torch.ones(2) * 2), (X,)
    torch.set_default_device("meta")
    try:
        yield MISS
    finally:
        torch.set_default_device(None)
    yield HIT
    with torch.device("meta"):
        yield ANY
    yield HIT


@scenario
def function_mode() -> Steps:
    class Sums(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(getattr(func, "__name__", ""))
            result = func(*args, **(kwargs or {}))
            return result + 1 if getattr(func, "__name__", "") == "sin" else result

    seen: list[str] = []
    yield (lambda x: x.sin()), (X,)
    with Sums():
        yield EAGER
    assert "sin" in seen
    yield HIT


@scenario
def dispatch_mode() -> Steps:
    class Watches(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(str(func))
            result = func(*args, **(kwargs or {}))
            return result + 1 if "sin" in str(func) else result

    seen: list[str] = []
    yield (lambda x: x.sin()), (X,)
    with Watches():
        yield EAGER
    assert any("sin" in name for name in seen)
    yield HIT


@scenario
def number_of_threads_is_no_matter() -> Steps:
    yield (lambda x: x * 2 + x.sum()), (X,)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield HIT
    torch.set_num_threads(before)


@scenario.parametrize()
def test_change_is_seen(steps: Any, breaks: bool) -> None:
    play(steps, breaks)


def test_grad_mode_with_aot_eager() -> None:
    play(grad_mode, backend="aot_eager")
