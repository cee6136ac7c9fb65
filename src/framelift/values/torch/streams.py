"""The current stream of the accelerator, of which optimizers ask whether its work is being recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from framelift.breaks import FL0102, GraphBreak
from framelift.values.core.base import Value
from framelift.values.core.primitives import primitive
from framelift.values.core.refusals import Operation

if TYPE_CHECKING:
    from framelift.values.core.tracer import Tracer


class CurrentStreamValue(Value):
    """`torch.accelerator.current_stream()`."""

    __slots__ = ()

    def python_type(self) -> type:
        return torch.cuda.Stream

    def attribute(self, tracer: Tracer, name: str) -> Any:
        if name != "is_capturing":
            self.refuse(Operation.ATTRIBUTE, name=name)
        return tracer.known_object(torch.cuda.is_current_stream_capturing)


@primitive(torch.accelerator.current_stream)
def _current_stream(tracer: Tracer, *device: Any) -> Any:
    accelerator = torch.accelerator.current_accelerator()
    if device or accelerator is None or accelerator.type != "cuda":
        raise GraphBreak(FL0102, what="torch.accelerator.current_stream with these arguments")
    return CurrentStreamValue()


@primitive(torch.cuda.is_current_stream_capturing)
def _is_capturing(tracer: Tracer) -> Any:
    """Whether a CUDA graph is being recorded; guarded, as lifted code may be called while one is."""
    ask = getattr(torch._C, "_cuda_isCurrentStreamCapturing", None)
    if ask is None:
        return False
    found = ask()
    tracer.guard(tracer.sources.known(ask).child("RESULT"), "IS", found)
    return found
