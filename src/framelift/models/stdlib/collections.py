"""The model of what `collections.Counter` counts with."""

from __future__ import annotations

from collections import _count_elements  # type: ignore[attr-defined]
from collections.abc import Iterable
from typing import Any

from framelift.models.registry import models


@models(_count_elements)
def count_elements(mapping: Any, iterable: Iterable[Any], /) -> None:
    get = mapping.get
    for item in iterable:
        mapping[item] = get(item, 0) + 1
