"""Operations that may have no kernel for the types they are given: fake tensors let them pass, real ones raise.

They are looked for among operations whose results nobody uses; the others raise when the graph runs them.
"""

from __future__ import annotations

import torch

from framelift.graph.purity import TAKES_ALL_TYPES, TAKES_BOOLS, TAKES_COMPLEX, TAKES_INTEGERS
from framelift.graph.record import Record

_COMPLEX = frozenset({torch.complex32, torch.complex64, torch.complex128})
_INTEGERS = frozenset({torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8})
# What takes tensors of these types, besides what takes all types. Of floating-point numbers what is not taken is rare.
_TAKEN = ((_COMPLEX, TAKES_COMPLEX), (_INTEGERS, TAKES_INTEGERS), (frozenset({torch.bool}), TAKES_BOOLS))
_USUAL = frozenset({torch.float32, torch.float64, torch.float16, torch.bfloat16})


def may_lack_kernel(record: Record) -> bool:
    """Whether an operation may raise for the types of its tensors."""
    types = {ref.dtype for ref in record.tensors}
    if types <= _USUAL or record.name in TAKES_ALL_TYPES:
        return False
    kinds = (taken for kind, taken in _TAKEN if types & kind)  # operands are cast to the first of these
    return record.name not in next(kinds, ())
