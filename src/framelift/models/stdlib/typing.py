"""The models of indexing generic classes and deriving from them: C code since 3.12 that calls this."""

from __future__ import annotations

import sys
import typing
from typing import Any

from framelift.models.registry import models

if sys.version_info >= (3, 12):

    @models(typing.Generic.__dict__["__class_getitem__"])
    def class_getitem(cls: type, params: Any) -> Any:
        return typing._generic_class_getitem(cls, params)  # type: ignore[attr-defined]

    @models(typing.Generic.__dict__["__init_subclass__"])
    def init_subclass(cls: type, *args: Any, **kwargs: Any) -> Any:
        return typing._generic_init_subclass(cls, *args, **kwargs)  # type: ignore[attr-defined]
