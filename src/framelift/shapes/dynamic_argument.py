"""`compile(..., dynamic={...})`: what the user says about single inputs, by the names they have in the program.

>>> from framelift.options import checked_dynamic
>>> named(checked_dynamic({"x": {0: (2, 4096)}}), lambda name: [])
{"L['x']": {0: Mark(kind='dynamic', lower=2, upper=4096, strict=True, hint=None)}}
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from framelift.options import Wishes
from framelift.shapes.history import Wish
from framelift.shapes.marks import Mark

_ROOT = re.compile(r"[A-Za-z_]\w*")


# Where a name is found that is no argument itself: the names of sources.
Places = Callable[[str], list[str]]


def named(wishes: Wishes, places: Places) -> dict[str, Wish]:
    """The same by the names of sources."""
    found: dict[str, Wish] = {}
    for name, wish in wishes:
        meaning = wish if isinstance(wish, bool) else {dim: _mark(entry) for dim, entry in wish}
        for source in _sources(name, places):
            found[source] = meaning
    return found


def _sources(name: str, places: Places) -> list[str]:
    root = _ROOT.match(name)
    assert root is not None, "names are checked"
    if root[0] in ("L", "G") and name[1:2] == "[":
        return [name]
    rest = name[root.end() :]
    return [f"{source}{rest}" for source in (f"L[{root[0]!r}]", *places(root[0]))]


def _mark(entry: Any) -> Mark:
    if isinstance(entry, bool):
        return Mark("maybe" if entry else "static")
    lower, upper = entry
    return Mark("dynamic", lower, upper, strict=True)
