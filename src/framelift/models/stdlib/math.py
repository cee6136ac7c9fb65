"""The model of `math.prod`."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from framelift.models.registry import models


@models(math.prod)
def prod(iterable: Iterable[Any], /, *, start: Any = 1) -> Any:
    result = start
    for item in iterable:
        result = result * item
    return result
