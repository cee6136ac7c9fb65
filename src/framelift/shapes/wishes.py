"""`compile(..., dynamic={...})`: what the user says about single inputs, by the names they have in the program.

>>> from framelift.options import checked_dynamic
>>> named(checked_dynamic({"x": {0: (2, 4096)}}), {})
{"L['x']": {0: Mark(kind='dynamic', lower=2, upper=4096)}}
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from framelift.options import Wishes
from framelift.shapes.history import Wish
from framelift.shapes.marks import Mark

_ROOT = re.compile(r"[A-Za-z_]\w*")


def named(wishes: Wishes, roots: Mapping[str, list[str]]) -> dict[str, Wish]:
    """The same by the names of sources; `roots` says where a name is found that is no argument itself."""
    found: dict[str, Wish] = {}
    for name, wish in wishes:
        meaning = wish if isinstance(wish, bool) else {dim: _mark(entry) for dim, entry in wish}
        for source in _sources(name, roots):
            found[source] = meaning
    return found


def _sources(name: str, roots: Mapping[str, list[str]]) -> list[str]:
    root = _ROOT.match(name)
    assert root is not None, "names are checked"
    if root[0] in ("L", "G") and name[1:2] == "[":
        return [name]
    rest = name[root.end() :]
    return [f"{source}{rest}" for source in (f"L[{root[0]!r}]", *roots.get(root[0], ()))]


def _mark(entry: Any) -> Mark:
    if isinstance(entry, bool):
        return Mark("maybe" if entry else "static")
    return Mark("dynamic", *entry)
