"""Built-in objects that are misused: what they say is what Python says.

One line is one program. Where the model of an object does not know Python's words, it leaves the line to Python.
"""

from __future__ import annotations

import linecache
from typing import Any

import pytest
import torch

from tests.helpers import check

PROGRAMS = """
l[0:1] = 3
l[::2] = 3
l[::2] = [1]
l[Plain()]
l[Plain():2]
l["a":]
l[1.5:]
l[::0]
l[slice(Plain())] = []
del l[Plain()]
t[Plain()]
l[Index()] = 4
l * Plain()
l * 1.5
l *= "a"
l * Index()
Index() * l
(1, 2) * Index()
"ab" * Index()
Index() * b"ab"
"abc"[Index()]
(1, 2, 3)[Index()]
"abc"[Plain()]
(bin(Index()), oct(Index()), hex(Index()), chr(Index()))
hex(Plain())
hex(1.5)
hex()
"ab" * Plain()
l *= Index()
l.__mul__("a")
t + l
t += l
l + Plain()
"a" + l
"a" + x
b"a" + l
x.shape + l
l ** 2
2 ** l
l in {1, 2}
l in frozenset((1, 2))
s in {1, 2}
(1, l) in frozenset(((1, 2),))
{**3}
{**l}
{**Plain()}
d.update([1])
dict([1, 2])
dict([(1, 2), 3])
d.fromkeys([1, []])
d.fromkeys([1, 2])
enumerate(l, start="a")
list(enumerate("ab", Index()))
list(enumerate("ab", 1.5))
sorted(l, reverse="a")
sorted(l, reverse=None)
l.sort(reverse="")
l.sort(reverse=1)
getattr(l, 3)
hasattr(l, 3)
setattr(Plain(), 3, 5)
delattr(Plain(), 3)
vars(3)
setattr(3, "x", 5)
setattr(3, "real", 5)
delattr("a", "x")
super(Plain, 3)
super(Plain, None)
super(int, True).bit_length()
raise ValueError from 3
import itertools; r = list(itertools.product([1, 2], repeat=-1))
import types; r = types.SimpleNamespace(a=1).b
import collections; r = collections.deque().foo
import collections; r = collections.OrderedDict().foo
""".strip().splitlines()


class Plain:
    pass


class Index:
    def __index__(self) -> int:
        return 1


def _program(line: str, number: int) -> Any:
    assigned = line if "=" in line.split("(")[0] or line.startswith(("del", "raise", "import")) else f"r = {line}"
    text = f"""
def f(x):
    l, t, d, s, r = [1, 2, 3], (1, 2), {{"a": 1}}, {{1, 2}}, None
    y = x + 1
    try:
        {assigned}
    except Exception as error:
        return y, type(error), str(error)
    return y, type(r), r if type(r) in (int, list, dict, tuple, bool) else None, l, t, d, s
"""
    filename = f"<misuse {number}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    namespace: dict[str, Any] = {"Plain": Plain, "Index": Index}
    exec(compile(text, filename, "exec"), namespace)
    return namespace["f"]


@pytest.mark.parametrize("number", range(len(PROGRAMS)), ids=PROGRAMS)
def test_misuse(number: int) -> None:
    check(_program(PROGRAMS[number], number), torch.ones(3), expect_breaks=None)


def test_attributes_that_functions_in_c_do_not_have():
    def program(x, nothing):
        found = [getattr(function, "__code__", None) for function in (len, [].append, "".join, {}.get, str.upper)]
        return x + 1, found, dir(nothing) == dir(None), dir(3) == dir(4)

    check(program, torch.ones(2), None, fullgraph=True)
