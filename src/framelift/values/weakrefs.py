"""Weak references: what they refer to never changes while it lives, and its death ends the entry."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from framelift.values.base import Value

if TYPE_CHECKING:
    from framelift.capture.lift import Lift


class WeakReferenceValue(Value, models=weakref.ReferenceType):
    """`weakref.ref(obj)`, guarded by identity."""

    __slots__ = ()

    def note_facts(self, lift: Lift) -> None:
        assert self.source is not None
        if self.concrete.__callback__ is not None:
            self.refuse("use with a callback")
        lift.guard(self.source, "IS", self.concrete)

    def call(self, lift: Lift, args: list[Any], kwargs: dict[str, Any]) -> Any:
        referent = self.concrete()
        if referent is None or args or kwargs:
            self.refuse("calling")
        lift.require(lift.sources.known(referent))  # that it is alive is a fact by itself
        return lift.known_object(referent)
