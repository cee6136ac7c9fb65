"""Which kernels attention may choose from, switched inside traced code."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention as attend

import framelift
from framelift.effects.modes import state_now
from tests.helpers import check

Q = (torch.arange(128.0).reshape(1, 2, 8, 8) / 50).sin()


def one_kernel(q: Any) -> Any:
    with sdpa_kernel(SDPBackend.MATH):
        y = attend(q, q, q)
    return y, y.stride(), attend(q, q, q)


def several(q: Any) -> Any:
    with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]):
        return attend(q, q, q) * 2


def in_an_order(q: Any) -> Any:
    with sdpa_kernel([SDPBackend.MATH, SDPBackend.FLASH_ATTENTION], set_priority=True):
        y, order = attend(q, q, q), torch._C._get_sdp_priority_order()
    return y, y.stride(), order, torch._C._get_sdp_priority_order()


def asked(q: Any) -> Any:
    before = torch.backends.cuda.flash_sdp_enabled()
    with sdpa_kernel(SDPBackend.MATH):
        within = torch.backends.cuda.flash_sdp_enabled(), torch.backends.cuda.math_sdp_enabled()
    return q * 2, before, within, torch.backends.cuda.flash_sdp_enabled()


def switched_and_back(q: Any) -> Any:
    torch.backends.cuda.enable_flash_sdp(False)
    y = attend(q, q, q)
    torch.backends.cuda.enable_flash_sdp(True)
    return y, y.stride()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("function", [one_kernel, several, in_an_order, asked, switched_and_back])
def test_in_one_graph(function: Any, backend: str) -> None:
    before = state_now()
    check(function, Q, fullgraph=True, backend=backend)
    check(function, Q.clone().requires_grad_(), fullgraph=True, backend=backend)
    assert state_now() == before


def test_across_a_break() -> None:
    def f(q: Any) -> Any:
        with sdpa_kernel(SDPBackend.MATH):
            y = attend(q, q, q)
            framelift.graph_break()
            z = attend(y, y, y)
        return z, z.stride(), torch.backends.cuda.flash_sdp_enabled()

    before = state_now()
    check(f, Q, expect_breaks=None)
    assert state_now() == before


def test_after_an_error_of_the_graph() -> None:
    def f(q: Any, index: Any) -> Any:
        with sdpa_kernel(SDPBackend.MATH):
            return attend(q, q, q).flatten().index_select(0, index)

    before = state_now()
    check(f, Q, torch.tensor([3]), changed=[(Q, torch.tensor([5])), (Q, torch.tensor([1000]))], expect_breaks=None)
    assert state_now() == before


def test_the_switch_outside_is_seen() -> None:
    def f(q: Any) -> Any:
        y = attend(q, q, q)
        return y, y.stride()

    lifted = framelift.compile(f, backend="eager", fullgraph=True)
    for kernel in (SDPBackend.MATH, SDPBackend.FLASH_ATTENTION, SDPBackend.MATH):
        with sdpa_kernel(kernel):
            assert lifted(Q)[1] == f(Q)[1]


def test_kernels_are_plain_data() -> None:
    def f(q: Any, kernel: Any, kernels: dict[Any, int]) -> Any:
        return q * kernels[kernel], kernel == SDPBackend.MATH, kernel in (SDPBackend.MATH,), int(kernel), kernel.name

    kernels = {SDPBackend.MATH: 2, SDPBackend.FLASH_ATTENTION: 3}
    check(
        f,
        *(Q, SDPBackend.MATH, kernels),
        changed=[(Q, SDPBackend.FLASH_ATTENTION, kernels), (Q, SDPBackend.MATH, kernels)],
        expect_breaks=None,
    )


def test_the_order_of_kernels_is_guarded() -> None:
    def f(q: Any) -> Any:
        with sdpa_kernel([SDPBackend.MATH], set_priority=True):
            pass
        return attend(q, q, q), torch._C._get_sdp_priority_order()

    before = torch._C._get_sdp_priority_order()
    lifted = framelift.compile(f, backend="eager", fullgraph=True)
    try:
        for order in (before, before[::-1], before):
            torch._C._set_sdp_priority_order(order)
            assert lifted(Q)[1] == order == torch._C._get_sdp_priority_order()
    finally:
        torch._C._set_sdp_priority_order(before)
