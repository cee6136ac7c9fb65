"""Modes switched inside traced code: grad mode, autocast, inference mode; across breaks, errors and entries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift
from tests.helpers import check

X = (torch.arange(12.0).reshape(3, 4) / 5 - 1).requires_grad_()


def no_grad(x: Any) -> Any:
    with torch.no_grad():
        y = x * 2
    return y, x * 3


def enable_grad(x: Any) -> Any:
    with torch.no_grad():
        a = x * 2
        with torch.enable_grad():
            b = x * 3
        c = x * 4
    return a, b, c


def set_grad(x: Any) -> Any:
    with torch.set_grad_enabled(False):
        y = x * 2
    torch.set_grad_enabled(False)
    z = x * 3
    torch.set_grad_enabled(True)
    return y, z, x * 4


@torch.no_grad()
def helper(x: Any) -> Any:
    return x * 2


def decorated(x: Any) -> Any:
    return helper(x), x * 3


def break_inside(x: Any) -> Any:
    with torch.no_grad():
        y = x * 2
        z = y.sum().item()
        w = x * z
    return y, w, x * 3


def read_mode(x: Any) -> Any:
    with torch.no_grad():
        a = torch.is_grad_enabled()
    return x * 2, a, torch.is_grad_enabled()


def raise_inside(x: Any) -> Any:
    try:
        with torch.no_grad():
            y = x * 2
            raise ValueError("inside")
    except ValueError:
        return y, x * 3


def leaves_disabled(x: Any) -> Any:
    y = x * 2
    torch._C._set_grad_enabled(False)
    return y, x * 3


def inference(x: Any) -> Any:
    with torch.inference_mode():
        y = x * 2
    return y + 0, x * 3


def inference_detached(x: Any) -> Any:
    with torch.inference_mode():
        y = (x * 2).sum()
        z = torch.is_inference_mode_enabled()
    return z, x * 3


def inference_break(x: Any) -> Any:
    w = x * 3
    with torch.inference_mode():
        y = (x * 2).sum()
        z = y.item()
    return w + z


def autocast(x: Any) -> Any:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ x.t()
    return y, x @ x.t()


def autocast_nested(x: Any) -> Any:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        a = x @ x.t()
        with torch.autocast("cpu", enabled=False):
            b = x @ x.t()
        c = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")
    return a, b, c


def autocast_break(x: Any) -> Any:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        a = x @ x.t()
        n = a.sum().item()
        b = x @ x.t()
    return a, n, b, x @ x.t()


def amp(x: Any) -> Any:
    with torch.amp.autocast(device_type="cpu", dtype=torch.float16):
        return torch.nn.functional.linear(x, WEIGHT)


@torch.autocast("cpu", dtype=torch.bfloat16)
def autocast_helper(x: Any) -> Any:
    return x @ x.t()


def autocast_decorated(x: Any) -> Any:
    return autocast_helper(x), x @ x.t()


def autocast_linear(x: Any) -> Any:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return torch.nn.functional.linear(x, WEIGHT) @ torch.nn.functional.linear(x, WEIGHT).t()


WEIGHT = torch.nn.Parameter(torch.arange(16.0).reshape(4, 4) / 10)

PROGRAMS = [
    no_grad,
    enable_grad,
    set_grad,
    decorated,
    break_inside,
    read_mode,
    raise_inside,
    inference,
    inference_detached,
    inference_break,
    autocast,
    autocast_nested,
    autocast_break,
    amp,
    autocast_decorated,
    autocast_linear,
]


@pytest.mark.parametrize("function", PROGRAMS)
def test_programs(function: Callable[[Any], Any]) -> None:
    check(function, X, expect_breaks=None, expect_ops=0)
    assert torch.is_grad_enabled() and not torch.is_autocast_enabled("cpu") and not torch.is_inference_mode_enabled()
    with torch.no_grad():
        check(function, X, expect_breaks=None, expect_ops=0)


WHOLE = [no_grad, enable_grad, set_grad, decorated, read_mode, autocast, autocast_nested, amp, autocast_decorated]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("function", WHOLE)
def test_in_one_graph(function: Callable[[Any], Any], backend: str) -> None:
    check(function, X, fullgraph=True, backend=backend)
    assert torch.is_grad_enabled() and not torch.is_autocast_enabled("cpu")


def test_mode_left_switched() -> None:
    lifted = framelift.compile(leaves_disabled, backend="eager")
    for _ in range(2):
        y, z = lifted(X)
        assert y.requires_grad and not z.requires_grad and not torch.is_grad_enabled()
        torch.set_grad_enabled(True)


def test_entries_per_mode() -> None:
    lifted = framelift.compile(lambda x: x @ x.t(), backend="eager")
    assert lifted(X).requires_grad
    with torch.no_grad():
        assert not lifted(X).requires_grad
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert lifted(X).dtype is torch.bfloat16
    with torch.inference_mode():
        assert lifted(X).is_inference()
    assert lifted(X).dtype is torch.float32 and lifted(X).requires_grad


def test_casts_are_remembered_across_a_break():
    """A parameter that autocast has cast is not cast again behind a break: its gradients add up in low precision."""

    def function(x, weight):
        with torch.autocast("cpu", torch.bfloat16):
            y = x @ weight
            framelift.graph_break()
            z = y @ weight
        return z

    torch.manual_seed(0)
    check(function, torch.randn(4, 4), torch.randn(4, 4, requires_grad=True), expect_breaks=1)


def test_a_copy_of_what_dropout_gives_in_inference_mode():
    """Dropout that is off gives its argument, for fake tensors as well: the copy is needed."""

    def fn(x):
        y = torch.nn.functional.dropout(x, 0.5, False).clone()
        framelift.graph_break()
        return y.add_(1)

    with torch.inference_mode():
        check(fn, inputs=lambda: (torch.ones(3),), expect_breaks=1)
