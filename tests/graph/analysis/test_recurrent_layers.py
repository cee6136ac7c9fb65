"""Which recurrent layers are left to autograd."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import framelift
from framelift.backends import lookup


@pytest.mark.parametrize(
    "layer, recorded, compiled",
    [
        (nn.LSTM(3, 4, num_layers=2), True, False),
        (nn.LSTM(3, 4, num_layers=2), False, True),
        (nn.LSTM(3, 4, num_layers=2, dropout=0.5), True, False),
        (nn.GRU(3, 4), True, True),
    ],
)
def test_layers_of_onednn(layer: nn.Module, recorded: bool, compiled: bool) -> None:
    seen: list[Any] = []

    def backend(module: Any, inputs: Any) -> Any:
        seen.append(module)
        return lookup("aot_eager")(module, inputs)

    x = torch.randn(5, 2, 3)
    lifted = framelift.compile(layer, backend=backend, fullgraph=True)
    with torch.set_grad_enabled(recorded):
        for _ in range(2):
            torch.manual_seed(0)
            expected = layer(x)[0]
            torch.manual_seed(0)
            assert torch.equal(lifted(x)[0], expected)
    assert bool(seen) == compiled
