"""Models of torch's functions that say in one truth value how two tensors compare."""

from __future__ import annotations

from typing import Any

import torch

from framelift.models.torch_sizes import says


@says(torch.equal, "equal")
def equal(input: Any, other: Any) -> bool:
    """Tensors of different types are compared as those that the sum of them has."""
    if input.shape != other.shape:
        return False
    return bool((input == other).all())


@says(torch.allclose, "allclose")
def allclose(input: Any, other: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False) -> bool:
    return bool(torch.isclose(input, other, rtol=rtol, atol=atol, equal_nan=equal_nan).all())
