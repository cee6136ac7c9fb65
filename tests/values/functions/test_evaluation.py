"""`compile`, `eval`, `exec` and `locals`."""

from __future__ import annotations

import ast
import sys

import pytest
import torch

import framelift
from tests.helpers import check
from tests.values.cases import Cases, vector

cases = Cases()
X = vector()
LIMIT = 5
AWAITING = compile("await other()", "<text>", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


@cases(X)
def expression(x):
    y = 3
    return eval("x + y * LIMIT"), eval("[n * y for n in (1, 2)]", {"y": 4}), eval(b"1 + 1")


@cases(X)
def with_namespaces(x):
    outside, inside = {"a": 1, "x": x}, {"a": 2, "b": 3}
    return eval("x + a + b", outside, inside), sorted(outside), "__builtins__" in outside, inside


@cases(X)
def statements(x):
    made = {"x": x}
    exec("import math\ny = x * 2\ndef double(n): return y * n\nclass C:\n    z = y", made)
    return made["double"](3) + made["C"].z, sorted(made)


@cases(X)
def statements_with_two_namespaces(x):
    known, made = {"x": x}, {}
    exec("y = x + 1\nglobal g\ng = 2", known, made)
    return made["y"], sorted(made), sorted(known), known["g"]


@cases(X)
def functions_made_of_text(x):
    made = {}
    text = "def create(scale):\n def inner(t, bias=1):\n  return t * scale + bias\n return inner"
    exec(text, globals(), made)
    inner = made["create"](3)
    return inner(x), inner(x, bias=2), inner.__name__, inner.__code__.co_filename


@cases(X)
def no_builtins(x):
    namespace = {"_new": tuple.__new__, "__builtins__": {}, "__name__": "some"}
    made = eval("lambda cls, a, b: _new(cls, (a, b))", namespace)
    return x + made(tuple, 1, 2)[1], made.__module__


@cases(X)
def compiled(x):
    code = compile("x * n", "<made>", "eval")
    return eval(code, {"x": x, "n": 3}), code.co_filename, eval(compile("1+1", "", "eval", optimize=0))


@cases(X)
def errors_of_syntax(x):
    found = []
    for text in ("1 +", "a b", "def", "x = 1", "match x:\n  case a, a: pass"):
        try:
            eval(text)
        except SyntaxError as error:
            found.append((error.msg, error.lineno, error.offset, error.text, str(error), error.filename))
    try:
        compile("f(**a, *b)", "some", "exec")
    except SyntaxError as error:
        found.append((error.args, error.end_offset, error.print_file_and_line))
    return x + len(found), found


@cases(X)
def errors_found_after_parsing(x):
    try:
        compile("def f(x):\n  def g():\n    nonlocal y\n", "some", "exec")
    except SyntaxError as error:
        return x + 1, error.lineno, error.offset, error.filename, str(error), error.args[0]


@cases(X)
def errors_of_names(x):
    found = []
    for text, given in (("missing", {}), ("n()", {"n": 1}), ("1/0", {})):
        try:
            eval(text, given)
        except Exception as error:
            found.append((type(error), str(error)))
    return x + 1, found


@cases(X)
def variables(x):
    y = x + 1
    before = dict(locals())
    del y
    z, w = 1, 2
    hidden = lambda: w  # noqa: E731
    names = sorted(locals())
    return before["y"], names, "y" in locals(), locals()["w"], sorted(vars()), hidden()


@cases(X)
def variables_of_inner_functions(x):
    n = 3

    def inner(a, *rest, **more):
        b = n
        return list(locals()), b

    class Body:
        a = 1
        b = sorted(name for name in locals() if not name.startswith("__"))

    return x + 1, inner(1, 2, c=3), Body.b


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="locals() is a new dict each time")
def test_one_dict_of_variables():
    def f(x):
        first = locals()
        y = 1
        second = locals()
        return x + y, first is second, sorted(second)

    check(f, X)


@cases(X, expect_breaks=None, expect_ops=0)
def variables_assigned_by_text(x):
    y = 1
    exec("y = 2")
    return x + y


@cases(X, expect_breaks=0 if sys.version_info < (3, 13) else None)
def comprehensions_of_text_see_their_variables(x):
    made = {"numbers": [1, 2]}
    exec(
        """
seen = [sorted(set(locals()) & {"n", "numbers"}) for n in numbers]
values = [eval("n", {"n": 5}) for n in numbers]
found = [(vars()["n"], "n" in dir(), eval("n")) for n in numbers]
class Body:
    own = 4
    inner = [sorted(set(locals()) & {"n", "own"}) for n in (1, 2)]
after = "n" in locals(), "n" in globals(), Body.inner
""",
        made,
    )
    return x + 1, made["seen"], made["values"], made["found"], made["after"]


@cases(X)
def bodies_of_classes_see_what_they_define(x):
    y, z = 42, 7

    class Body:
        y = 43
        names = sorted(name for name in locals() if not name.startswith("__"))
        both = y, z
        own = [y, locals().get("z"), "z" in locals()]

        def method(self):
            return __class__, z

    return x + Body.both[0], Body.names, Body.both, Body.own, Body().method()[1]


@cases(X, expect_breaks=None)
def text_that_awaits(x):
    made = eval(AWAITING, {})
    made.close()
    return x + 1, type(made).__name__


@cases(X, expect_breaks=None)
def text_that_is_warned_about(x):
    try:
        return x + eval("1 is 1")
    finally:
        x.sum()


test_programs = cases.test


def test_text_from_outside_is_guarded():
    def f(x, text):
        return eval(text)

    lifted = framelift.compile(f, backend="eager", fullgraph=True)
    assert lifted(X, "x + 1").equal(X + 1)
    assert lifted(X, "x * 2").equal(X * 2)


def test_globals_are_guarded():
    def f(x, names):
        return eval("x + n", names, {"x": x})

    names = {"n": 1}
    lifted = framelift.compile(f, backend="eager", fullgraph=True)
    assert lifted(torch.ones(2), names).equal(torch.ones(2) + 1)
    names["n"] = 2
    assert lifted(torch.ones(2), names).equal(torch.ones(2) + 2)
    assert "__builtins__" in names
