"""A `print` that is never traced, for tests about graph breaks: `from tests.helpers.untraced import print`."""

from __future__ import annotations

import builtins
from typing import Any

import framelift


@framelift.disable
def print(*values: Any, **options: Any) -> None:
    """`print`, with a graph break."""
    builtins.print(*values, **options)
