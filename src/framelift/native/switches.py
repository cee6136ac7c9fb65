"""Two places of the C core rely on what nobody promises.

Each can be turned off, by an environment variable that is read once, and is off by itself where its test disagrees:
`selftest` tries the one, `torch.calibrate` the other.

>>> HOLD_SIGNALS.variable, READ_GETTERS.variable
('FRAMELIFT_HOLD_SIGNALS', 'FRAMELIFT_READ_GETTERS')
"""

from __future__ import annotations

from framelift.config import Setting

HOLD_SIGNALS = Setting(
    "hold_signals",
    True,
    "signals wait while a frame is captured: CPython is told that it has no main thread (frames/signals.c)",
)
READ_GETTERS = Setting(
    "read_getters",
    True,
    "flags of torch are read where the machine code of its getters reads them, instead of being asked for "
    "(torch/torch_state_parts.c)",
)
