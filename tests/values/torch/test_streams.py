"""The current stream: whether work on it is being recorded is guarded."""

from __future__ import annotations

import faulthandler
from typing import Any

import pytest
import torch

import framelift


def test_whether_work_is_recorded_is_guarded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a GPU: what torch would ask the driver is answered by another module of C."""
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda **_: torch.device("cuda"))
    monkeypatch.setattr(torch._C, "_cuda_isCurrentStreamCapturing", faulthandler.is_enabled, raising=False)

    @framelift.compile(backend="eager", fullgraph=True)
    def f(x: Any) -> Any:
        return x + 1 if torch.accelerator.current_stream().is_capturing() else x - 1

    x = torch.zeros(2)
    faulthandler.enable()
    try:
        assert f(x).tolist() == f(x).tolist() == [1, 1]
        faulthandler.disable()
        assert f(x).tolist() == [-1, -1]
        faulthandler.enable()
        assert f(x).tolist() == [1, 1]
    finally:
        faulthandler.enable()
