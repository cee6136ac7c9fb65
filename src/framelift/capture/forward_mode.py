"""Forward-mode derivatives: what compilers make of a graph drops tangents, so within a level a graph runs as it is."""

from __future__ import annotations

from torch.autograd import forward_ad

from framelift.capture.lift import Lift

_LEVEL = "_current_level"


def has_tangents(lift: Lift) -> bool:
    """Whether tensors may have tangents; guarded from here on."""
    level: int = getattr(forward_ad, _LEVEL, -1)
    lift.guard(lift.sources.known(forward_ad).child("MODULE_DICT").child("DICT_ITEM", _LEVEL), "EQUALS", level)
    return level >= 0
