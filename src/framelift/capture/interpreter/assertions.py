"""Branches on the value of a tensor, one of which raises: the other one is presumed, and checked when the graph runs.

`assert mask.any()` and `if (p < 0).any(): raise ValueError` decide nothing but whether there is an error. If the check
fails, the graph raises, everything is taken back, and Python runs the program and raises, or handles, what it raises.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from framelift.breaks import FL0301, GraphBreak
from framelift.bytecode.canonical_ops import JUMP_OPS
from framelift.values.core import protocol as py
from framelift.values.numbers.symbolic import SymbolicValue
from framelift.values.tensors.data_dependent import presume, presume_truth
from framelift.values.tensors.tensors import TensorValue

if TYPE_CHECKING:
    from framelift.capture.interpreter.frame import Frame
    from framelift.capture.interpreter.program import Program
    from framelift.capture.interpreter.tracing import Tracing

# A message is put together by few instructions.
_LONGEST = 200


def is_data(value: Any) -> bool:
    """Whether the truth of a value is a matter of what is in tensors."""
    return isinstance(value, TensorValue) or (isinstance(value, SymbolicValue) and value.depends_on_data)


def presumed_truth(frame: Frame, value: TensorValue | SymbolicValue, if_true: int, if_false: int) -> bool:
    """Whether a tensor, or a number that depends on data, is true, as far as the program goes on."""
    raises = [leads_to_raise(frame.program, step) for step in (if_true, if_false)]
    lift = frame.lift
    if isinstance(value, SymbolicValue):
        return py.truth(lift, value) if raises[0] == raises[1] else _presumed_number(lift, value, raises[1])
    if raises[0] == raises[1] or value.ref(lift).descriptor.shape.numel() != 1:
        raise GraphBreak(FL0301, what=f"the truth of a {value.describe()}")
    truth = raises[1]
    presume_truth(lift, value, truth)
    return truth


def _presumed_number(lift: Tracing, value: SymbolicValue, truth: bool) -> bool:
    condition = value if value.python_type() is bool else py.compare(lift, "!=", value, 0)
    if not truth:
        condition = lift.call_on_numbers(torch.sym_not, (condition,))
    presume(lift, condition, value.describe(), is_said=True)
    return truth


def leads_to_raise(program: Program, step: int) -> bool:
    """Whether the instructions from a step on end in a `raise` with no other way out."""
    steps = program.steps
    for _ in range(_LONGEST):
        op = steps[step].op
        if op == "RAISE_VARARGS":
            return True
        if op == "JUMP":
            step = int(steps[step].arg)
        elif op in JUMP_OPS or op in ("RETURN_VALUE", "RERAISE", "YIELD_VALUE"):
            return False
        else:
            step += 1
    return False
