"""torch.compile has a frame hook of its own. It leaves alone what framelift runs: its own code, and the code it made.

A function that torch traces and that calls a lifted one breaks there, at the latest. Without this, torch would go on to
compile framelift as it captures.
"""

from __future__ import annotations

from types import CodeType, FunctionType, ModuleType

import torch

from framelift import interrupts
from framelift.guards import reference
from framelift.native import calibrate

_HOOK = torch._C._dynamo.eval_frame
_SKIP = _HOOK._FrameAction.SKIP
# These frames, and all that they call.
_LEFT_ALONE = _HOOK._FrameExecStrategy(_SKIP, _SKIP)


def leave_alone(code: CodeType) -> None:
    """Frames of this code, and what they call, run as they are."""
    _HOOK.set_code_exec_strategy(code, _LEFT_ALONE)


def _leave_all_alone(module: ModuleType) -> None:
    for function in vars(module).values():
        if type(function) is FunctionType and function.__module__ == module.__name__:
            leave_alone(function.__code__)
            for part in function.__code__.co_consts:
                if type(part) is CodeType:
                    leave_alone(part)


# What native code calls: to check guards, where a graph raised.
_leave_all_alone(calibrate)
_leave_all_alone(reference)
_leave_all_alone(interrupts)
