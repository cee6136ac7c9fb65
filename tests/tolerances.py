"""How close a lifted result must be to eager's, per backend and dtype: exact, unless the backend rounds its own way."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Allowed difference; `exact` also asks for equal strides, and equal sharing of memory."""

    rtol: float = 0.0
    atol: float = 0.0
    strides: bool = True
    sharing: bool = True

    @property
    def exact(self) -> bool:
        return self.rtol == self.atol == 0.0


EXACT = Tolerance()

# Inductor fuses and reorders floating-point arithmetic; the bounds are those torch's own suite uses for it.
INDUCTOR = {
    torch.float16: Tolerance(1e-3, 1e-3, strides=False, sharing=False),
    torch.bfloat16: Tolerance(1.6e-2, 1e-3, strides=False, sharing=False),
    torch.float32: Tolerance(1.3e-6, 1e-5, strides=False, sharing=False),
    torch.float64: Tolerance(1e-7, 1e-7, strides=False, sharing=False),
    torch.complex64: Tolerance(1.3e-6, 1e-5, strides=False, sharing=False),
    torch.complex128: Tolerance(1e-7, 1e-7, strides=False, sharing=False),
}

# torch's NumPy layer adds sums up in another order than NumPy, and approximates sine and its like with other formulas.
NUMPY = {
    torch.float16: Tolerance(2e-3, 2e-3),
    torch.float32: Tolerance(2e-6, 2e-6),
    torch.float64: Tolerance(1e-13, 1e-13),
}


def tolerance(backend: object, dtype: torch.dtype | None) -> Tolerance:
    """The tolerance for results of this dtype with this backend (a callable backend is taken to be exact).

    "numpy" stands for programs that compute with arrays.
    """
    if backend == "numpy":
        return NUMPY.get(dtype, EXACT) if dtype is not None else EXACT
    if backend != "inductor":
        return EXACT
    return INDUCTOR.get(dtype, Tolerance(strides=False, sharing=False)) if dtype is not None else EXACT


# What a merged product may add to the error of the separate ones, relative to the largest result: a few roundings in
# another order. Errors are measured against a run in double precision.
MERGED_PRODUCTS = {torch.float64: 1e-13, torch.float32: 2e-6, torch.bfloat16: 2e-2, torch.float16: 2e-3}

# An optimizer that hears that it is compiled keeps its step count in a float32 tensor, and computes with it what it
# otherwise computes in Python's double precision. torch.compile gives the same; differences grow from step to step.
COMPILED_OPTIMIZER = 1e-4

# Gradients of a whole model through Inductor's backward: every layer adds up sums of sums in another order.
TRAINED_BY_INDUCTOR = {"rtol": 1e-4, "atol": 1e-4}
