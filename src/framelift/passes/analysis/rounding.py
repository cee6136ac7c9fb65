"""Which operations give the same bits wherever their operands lie in memory.

Most pointwise kernels have one path for long runs of memory and another for strided values or the rest of a row, and
the two may round differently; sums and products choose their order of additions by the layout. An exact pass may hand
such an operation the same values only if they lie as before.
"""

from __future__ import annotations

from torch.fx import Node

from framelift.passes import ops
from framelift.passes.analysis.effects import is_pure
from framelift.passes.ops import Bound

# Values are moved, not computed.
MOVING = (
    ops.SHAPES
    | ops.SPLITS
    | ops.AXES
    | {"unbind", "narrow", "select", "getitem", "expand", "cat", "stack", "contiguous", "clone", "repeat", "detach"}
)
# Computed, but each in one step that is rounded as IEEE says.
ROUNDED_ONCE = frozenset(
    {"relu", "neg", "abs", "clamp", "clamp_min", "clamp_max", "nan_to_num", "add", "sub", "mul", "div"}
)


def is_same_everywhere(call: Bound) -> bool:
    """Whether a pointwise call rounds in the same way wherever its operands lie."""
    if call.op not in ROUNDED_ONCE:
        return False
    # x + alpha * y is one rounding in some kernels and two in others.
    return call.arguments.get("alpha", 1) == 1 and call.arguments.get("rounding_mode") is None


def keeps_bits(node: Node) -> bool:
    """Whether a node's result is the same bits if its operands lie otherwise in memory."""
    call = ops.bind(node)
    return call is not None and is_pure(node) and (call.op in MOVING or is_same_everywhere(call))
