"""Every request of the builder, run on whatever interpreter this is."""

from __future__ import annotations

import inspect
import sys
import traceback
import types
from typing import Any

import pytest

from framelift.bytecode.builder import Builder
from framelift.bytecode.decode import decode
from framelift.bytecode.stack_depth import StackError
from framelift.bytecode.verify import verify_bytecode


def run(builder: Builder, *args: Any, **kwargs: Any) -> Any:
    code = builder.to_code("made")
    verify_bytecode(decode(code))
    return types.FunctionType(code, {"__builtins__": __builtins__, "answer": 42})(*args, **kwargs)


def test_variables() -> None:
    b = Builder(("x",))
    b.load_fast("x")
    b.store_fast("y")
    b.delete_fast("x")
    tmp = b.temporary()
    b.take_fast("y")
    b.store_fast(tmp)
    b.load_global("locals")
    b.begin_call()
    b.call(0)
    b.return_value()
    assert run(b, 5) == {tmp: 5}


def test_checked_load_of_an_unbound_variable() -> None:
    b = Builder()
    b.load_fast("nowhere", checked=True)
    b.return_value()
    with pytest.raises(UnboundLocalError, match="nowhere"):
        run(b)


def test_globals() -> None:
    b = Builder()
    b.load_const(7)
    b.store_global("made")
    b.load_global("made")
    b.load_global("answer")
    b.build_tuple(2)
    b.delete_global("made")
    b.return_value()
    assert run(b) == (7, 42)


def test_constants_keep_type_and_identity() -> None:
    marker = object()
    b = Builder()
    values = [1, True, 1.0, 0.0, -0.0, "text", None, marker, (1, 1.0), (1.0, 1), marker]
    for value in values:
        b.load_const(value)
    b.build_list(len(values))
    b.return_value()
    got = run(b)
    assert [repr(value) for value in got] == [repr(value) for value in values]
    assert all(type(a) is type(c) for a, c in zip(got, values, strict=True))
    assert got[7] is got[10] is marker


def test_a_string_constant_is_not_a_docstring() -> None:
    b = Builder()
    b.load_const("not a docstring")
    b.return_value()
    assert types.FunctionType(b.to_code("f"), {}).__doc__ is None


def test_stack_requests() -> None:
    b = Builder(("x", "y"))
    b.load_fast("x")
    b.load_fast("y")
    b.swap()
    b.copy(2)
    b.build_tuple(3)
    b.load_const(1)
    b.pop_top()
    b.return_value()
    assert run(b, 1, 2) == (2, 1, 2)


def test_attributes_and_items() -> None:
    box = types.SimpleNamespace(a=1, items={})
    b = Builder(("box",))
    b.load_const(9)
    b.load_fast("box")
    b.store_attr("b")
    b.load_fast("box")
    b.delete_attr("a")
    b.load_const("value")
    b.load_fast("box")
    b.load_attr("items")
    b.load_const("key")
    b.store_subscr()
    b.load_const("other")
    b.load_fast("box")
    b.load_attr("items")
    b.load_const("gone")
    b.store_subscr()
    b.load_fast("box")
    b.load_attr("items")
    b.load_const("gone")
    b.delete_subscr()
    b.load_fast("box")
    b.load_attr("items")
    b.load_const("key")
    b.binary_subscr()
    b.return_value()
    assert run(b, box) == "value"
    assert vars(box) == {"b": 9, "items": {"key": "value"}}


OPERATORS = ["+", "-", "*", "/", "//", "%", "**", "<<", ">>", "&", "|", "^", "+=", "-=", "*=", "//=", "|="]


@pytest.mark.parametrize("operator", OPERATORS)
def test_binary_operators(operator: str) -> None:
    b = Builder(("x", "y"))
    b.load_fast("x")
    b.load_fast("y")
    b.binary_op(operator)
    b.return_value()
    assert run(b, 13, 3) == eval(f"13 {operator.removesuffix('=')} 3")


@pytest.mark.parametrize("operator", ["<", "<=", "==", "!=", ">", ">=", "is", "is not"])
@pytest.mark.parametrize("pair", [(1, 2), (2, 1), (2, 2), (1.5, 2), ("a", "b")])
def test_comparisons(operator: str, pair: tuple) -> None:
    b = Builder(("x", "y"))
    b.load_fast("x")
    b.load_fast("y")
    b.compare(operator)
    b.return_value()
    x, y = pair
    function = types.FunctionType(b.to_code("compare"), {})
    for _ in range(50):  # long enough for the interpreter to specialise it
        assert function(x, y) is eval(f"x {operator} y", {"x": x, "y": y})


def test_comparison_returns_what_the_method_returns() -> None:
    class Odd:
        def __lt__(self, other: object) -> str:
            return "odd"

    b = Builder(("x",))
    b.load_fast("x")
    b.load_const(1)
    b.compare("<")
    b.return_value()
    assert run(b, Odd()) == "odd"


def test_membership() -> None:
    for operator, want in (("in", True), ("not in", False)):
        b = Builder(("x", "xs"))
        b.load_fast("x")
        b.load_fast("xs")
        b.compare(operator)
        b.return_value()
        assert run(b, 1, [1, 2]) is want


def test_containers() -> None:
    b = Builder(("x",))
    b.load_fast("x")
    b.build_list(1)
    b.load_const((2, 3))
    b.list_extend()
    b.load_const(4)
    b.list_append()
    b.list_to_tuple()
    b.load_fast("x")
    b.build_set(1)
    b.load_const((8,))
    b.set_update()
    b.load_const("k")
    b.load_fast("x")
    b.build_map(1)
    b.load_const(types.MappingProxyType({"j": 2}))
    b.dict_update()
    b.load_const(1)
    b.load_const(2)
    b.build_slice()
    b.load_const(1)
    b.load_const(2)
    b.load_const(3)
    b.build_slice(3)
    b.load_fast("x")
    b.build_const_key_map(("c",))
    b.load_const("a")
    b.load_const("b")
    b.build_string(2)
    b.build_tuple(7)
    b.return_value()
    want = ((1, 2, 3, 4), {1, 8}, {"k": 1, "j": 2}, slice(1, 2), slice(1, 2, 3), {"c": 1}, "ab")
    assert run(b, 1) == want


def test_unpacking() -> None:
    b = Builder(("xs",))
    b.load_fast("xs")
    b.unpack_sequence(3)
    b.build_tuple(3)
    b.return_value()
    assert run(b, "abc") == ("c", "b", "a")


def spy(*args: Any, **kwargs: Any) -> Any:
    return args, kwargs


@pytest.mark.parametrize("count, kwnames", [(0, ()), (2, ()), (2, ("k",)), (2, ("k", "l"))])
@pytest.mark.parametrize("how", ["constant", "just loaded", "computed", "at a label"])
def test_calls(count: int, kwnames: tuple[str, ...], how: str) -> None:
    b = Builder(("function",))
    if how == "constant":
        b.load_callable(spy)
    elif how == "just loaded":
        b.load_fast("function")
        b.begin_call()
    elif how == "computed":
        b.load_fast("function")
        b.build_list(1)
        b.load_const(0)
        b.binary_subscr()
        b.begin_call()
    else:  # the label is where the callable is loaded
        there = b.label()
        b.load_fast("function")
        b.jump_if_true(there)
        b.load_const("never")
        b.return_value()
        b.place(there)
        b.load_fast("function")
        b.begin_call()
    for n in range(count):
        b.load_const(n)
    b.call(count, kwnames)
    b.return_value()
    positional = count - len(kwnames)
    assert run(b, spy) == (tuple(range(positional)), dict(zip(kwnames, range(positional, count), strict=True)))


def test_a_label_between_callable_and_begin_call() -> None:
    b = Builder(("first", "second"))
    chosen, other = b.label(), b.label()
    b.load_fast("first")
    b.copy()
    b.jump_if_not_none(chosen)
    b.pop_top()
    b.load_fast("second")
    b.place(chosen)
    b.begin_call()
    b.call(0)
    b.return_value()
    code = b.to_code("f")
    function = types.FunctionType(code, {})
    assert (function(list, dict), function(None, dict)) == ([], {})
    assert not other.placed


def test_methods() -> None:
    b = Builder(("x",))
    b.load_fast("x")
    b.load_method("replace")
    b.load_const("a")
    b.load_const("b")
    b.call(2)
    b.load_method("encode")
    b.load_const("utf-8")
    b.call(1, ("encoding",))
    b.return_value()
    assert run(b, "aaa") == b"bbb"


@pytest.mark.parametrize("kwargs", [False, True])
def test_starred_calls(kwargs: bool) -> None:
    b = Builder()
    b.load_callable(spy)
    b.load_const((1, 2))
    if kwargs:
        b.build_map(0)
        b.load_const({"k": 3})
        b.dict_merge()
    b.call_function_ex(kwargs)
    b.return_value()
    assert run(b) == ((1, 2), {"k": 3} if kwargs else {})


def test_make_function() -> None:
    def outer(cell: int) -> Any:
        def inner(a: int, b: int = 0, *, c: int = 0) -> tuple:
            return a, b, c, cell

        return inner

    inner = outer(1)
    b = Builder(("cell",))
    b.load_const((20,))
    b.load_const("c")
    b.load_const(30)
    b.build_map(1)
    b.load_const(("a", "int"))
    b.load_fast("cell")
    b.build_tuple(1)
    b.make_function(inner.__code__, defaults=True, kwdefaults=True, annotations=True, closure=True)
    b.return_value()
    function = run(b, types.CellType(40))
    assert function(10) == (10, 20, 30, 40)
    assert function.__annotations__ == {"a": "int"}
    b = Builder()
    with pytest.raises(ValueError, match="free variables"):
        b.make_function(inner.__code__)


def test_make_plain_function() -> None:
    b = Builder()
    b.make_function((lambda: 5).__code__)
    b.begin_call()
    b.call(0)
    b.return_value()
    assert run(b) == 5


def test_import() -> None:
    b = Builder()
    b.load_const(0)
    b.load_const(None)
    b.import_name("os.path")
    b.load_attr("path")
    b.load_attr("sep")
    b.return_value()
    assert run(b) == "/"


def test_nested_loops() -> None:
    b = Builder(("rows",))
    outer, inner = b.label(), b.label()
    b.build_list(0)
    b.store_fast("out")
    b.load_fast("rows")
    b.get_iter()
    next_row = b.here()
    b.for_iter(outer)
    b.get_iter()
    next_item = b.here()
    b.for_iter(inner)
    b.load_fast("out")
    b.swap()
    b.list_append()
    b.pop_top()
    b.jump(next_item)
    b.end_for(inner)
    b.jump(next_row)
    b.end_for(outer)
    b.load_fast("out")
    b.return_value()
    assert run(b, [[1, 2], [], [3]]) == [1, 2, 3]
    generator = (iter((n,)) for n in range(200))  # long enough to be specialised, and from a generator
    assert types.FunctionType(b.to_code("again"), {})(generator) == list(range(200))


def test_handler_with_values_on_the_stack() -> None:
    b = Builder(("function",))
    failed, other = b.label(), b.label()
    b.load_const("kept")
    with b.protect(failed):
        b.load_fast("function")
        b.begin_call()
        b.call(0)
    b.build_tuple(2)
    b.return_value()
    b.begin_handler(failed)
    b.load_const(ValueError)
    b.check_exc_match()
    b.jump_if_false(other)
    b.store_fast("error")
    b.end_handler()
    b.take_fast("error")
    b.load_attr("args")
    b.build_tuple(2)
    b.return_value()
    b.place(other)
    b.reraise()
    code = b.to_code("guarded")
    verify_bytecode(decode(code))
    function = types.FunctionType(code, {})

    def wrong() -> None:
        raise ValueError("w")

    assert function(lambda: 1) == ("kept", 1)
    assert function(wrong) == ("kept", ("w",))
    with pytest.raises(ZeroDivisionError):
        function(lambda: 1 // 0)


def test_handlers_are_left_whatever_happens() -> None:
    """An exception that leaves a handler must not leave it behind as the one being handled."""
    b = Builder(("cause",))
    failed = b.label()
    with b.protect(failed):
        b.load_fast("cause")
        b.raise_()
    b.begin_handler(failed)
    b.load_const(KeyError("in handler"))
    b.raise_()
    function = types.FunctionType(b.to_code("f"), {})
    try:
        function(ValueError("first"))
    except KeyError as error:
        assert repr(error.__context__) == "ValueError('first')"
    assert sys.exc_info() == (None, None, None)


def test_returning_inside_a_handler_is_refused() -> None:
    b = Builder()
    failed = b.label()
    with b.protect(failed):
        b.load_const(1)
        b.return_value()
    b.begin_handler(failed)
    with pytest.raises(StackError, match="end_handler"):
        b.return_value()


def test_nested_regions_take_the_inner_handler() -> None:
    b = Builder()
    inner, outer = b.label(), b.label()
    with b.protect(outer):
        with b.protect(inner):
            b.load_const(ValueError("one"))
            b.raise_()
        b.begin_handler(inner)
        b.pop_top()
        b.load_const(TypeError("two"))
        b.raise_()
    b.begin_handler(outer)
    b.store_fast("error")
    b.end_handler()
    b.take_fast("error")
    b.return_value()
    error = run(b)
    assert repr(error) == "TypeError('two')"
    assert repr(error.__context__) == "ValueError('one')"


def test_lines_show_in_tracebacks() -> None:
    b = Builder()
    b.line(17)
    b.load_const(1)
    b.at((18, 18, 4, 9))
    b.load_const(0)
    b.binary_op("//")
    b.line(None)
    b.return_value()
    code = b.to_code("lines", filename="lines.py", firstlineno=16)
    with pytest.raises(ZeroDivisionError) as info:
        types.FunctionType(code, {})()
    frame = traceback.extract_tb(info.value.__traceback__)[-1]
    assert (frame.name, frame.filename, frame.lineno, frame.colno) == ("lines", "lines.py", 18, 4)


def test_starred_arguments() -> None:
    b = Builder(("a", "args", "kwargs"))
    for name in ("a", "args", "kwargs"):
        b.load_fast(name)
    b.build_tuple(3)
    b.return_value()
    code = b.to_code("f", varargs=True, varkeywords=True, qualname="C.f")
    function = types.FunctionType(code, {})
    assert function(1, 2, k=3) == (1, (2,), {"k": 3})
    assert str(inspect.signature(function)) == "(a, *args, **kwargs)"
    assert function.__qualname__ == "C.f"


def test_dead_code_is_dropped_unless_asked_for() -> None:
    def made(clean: bool) -> int:
        b = Builder()
        b.load_const(1)
        b.return_value()
        b.load_const(2)
        b.return_value()
        return len(b.to_code("f", clean=clean).co_code)

    assert made(clean=True) < made(clean=False)


def test_depth_is_known_all_the_time() -> None:
    b = Builder(("x",))
    assert b.depth == 0
    b.load_fast("x")
    b.load_method("m")
    assert b.depth == 2
    b.call(0)
    assert b.depth == 1
    b.return_value()
    assert b.depth is None


def test_mistakes_are_refused() -> None:
    with pytest.raises(ValueError, match="duplicate"):
        Builder(("x", "x"))
    b = Builder()
    with pytest.raises(StackError, match="more from the stack"):
        b.pop_top()
    b = Builder()
    label = b.here()
    with pytest.raises(ValueError, match="already placed"):
        b.place(label)
    with pytest.raises(ValueError, match="after the last"):
        b.to_code("f")
    b = Builder()
    b.jump(b.label())
    with pytest.raises(ValueError, match="not placed"):
        b.to_code("f")
    b = Builder()
    with pytest.raises(ValueError, match="operand"):
        b.emit("LOAD_CONST")
    with pytest.raises(ValueError, match="keywords"):
        b.call(0, ("k",))
    label = b.label()
    b.load_const(1)
    b.copy()
    b.jump_if_true(label)
    b.pop_top()
    with pytest.raises(StackError, match="reached with"):
        b.place(label)


def test_what_comes_in_front_may_use_what_was_not_known_before() -> None:
    b = Builder(("x",))
    b.load_fast("total")
    b.load_fast("x")
    b.binary_op("+")
    b.return_value()
    failed = b.label()
    with b.in_front():
        with b.protect(failed):
            b.load_fast("product")
            b.store_fast("total")
    b.add_argument("y")
    with b.in_front():
        b.load_fast("x")
        b.load_fast("y")
        b.binary_op("*")
        b.store_fast("product")
    b.begin_handler(failed)
    b.pop_top()
    b.end_handler()
    b.load_const(None)
    b.return_value()
    code = b.to_code("made")
    verify_bytecode(decode(code))
    assert code.co_varnames[: code.co_argcount] == ("x", "y")
    assert types.FunctionType(code, {})(5, 3) == 20


def test_an_added_argument_is_no_local_variable() -> None:
    b = Builder(("x",))
    b.load_fast("y")
    with pytest.raises(ValueError, match="y is a local variable already"):
        b.add_argument("y")


def test_what_comes_in_front_leaves_nothing_on_the_stack() -> None:
    b = Builder(("x",))
    b.load_fast("x")
    b.return_value()
    with pytest.raises(StackError, match="in front"):
        with b.in_front():
            b.load_fast("x")
