"""torch.compile has a frame hook of its own. It leaves alone what framelift runs: its own code, and the code it made.

A function that torch traces and that calls a lifted one breaks there, at the latest. Without this, torch would go on to
compile framelift as it captures.
"""

from __future__ import annotations

from types import CodeType, FunctionType, ModuleType

from torch._C._dynamo.eval_frame import _FrameAction, _FrameExecStrategy, set_code_exec_strategy

from framelift import interrupts
from framelift.guards import reference
from framelift.native.torch import calibrate
from framelift.torch_names import is_absent

_CAN_BE_TOLD = not any(map(is_absent, (_FrameAction, _FrameExecStrategy, set_code_exec_strategy)))


def leave_alone(code: CodeType) -> None:
    """Frames of this code, and what they call, run as they are."""
    if _CAN_BE_TOLD:
        set_code_exec_strategy(code, _FrameExecStrategy(_FrameAction.SKIP, _FrameAction.SKIP))


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
