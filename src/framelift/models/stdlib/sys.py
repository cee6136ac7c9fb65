"""Models of functions that only raise."""

from __future__ import annotations

import sys
from typing import Any, NoReturn

from framelift.models.registry import models


@models(sys.exit)
def exit_(status: Any = None, /) -> NoReturn:
    # C code makes an exception of what it is given: of nothing, of one thing, or of several in a tuple.
    if status is None:
        raise SystemExit
    if isinstance(status, tuple):
        raise SystemExit(*status)
    if isinstance(status, SystemExit):
        raise status
    raise SystemExit(status)
