"""The model of indexing generic classes, which is C code since 3.12 that calls this."""

from __future__ import annotations

import sys
import typing
from typing import Any

from framelift.models.registry import models

if sys.version_info >= (3, 12):

    @models(typing.Generic.__dict__["__class_getitem__"])
    def class_getitem(cls: type, params: Any) -> Any:
        return typing._generic_class_getitem(cls, params)  # type: ignore[attr-defined]
