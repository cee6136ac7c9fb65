"""The Triton kernels against plain torch, in Triton's interpreter.

    TRITON_INTERPRET=1 python -m tests.passes.interpreted

Ends with the status UNABLE where the interpreter cannot run a loop whose length is given at run time: older versions of
it do not get along with newer ones of NumPy.
"""

from __future__ import annotations

import sys

import torch
import triton
import triton.language as tl

from framelift.passes.kernels import triton_products
from tests.passes.support import closer
from tests.passes.test_kernels import SHAPES, UNABLE, cases, widened


@triton.jit
def _counting(out, length):
    total = 0
    for _ in range(0, length, 2):
        total += 1
    tl.store(out, total)


def can_loop() -> bool:
    """Whether the interpreter runs the kind of loop that the kernels have."""
    out = torch.zeros(1, dtype=torch.int32)
    try:
        _counting[(1,)](out, 5)
    except Exception:  # whatever it raises, it is not the kernels' fault
        return False
    return out.item() == 3


def main() -> int:
    if not can_loop():
        return UNABLE
    for dtype in (torch.float32, torch.float16):  # the interpreter does not multiply bfloat16
        for shape in SHAPES:
            for args, operator, words in cases(shape, dtype):
                kernel = getattr(triton_products, operator._name)
                closer(words(*args), kernel(*args), words(*widened(args)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
