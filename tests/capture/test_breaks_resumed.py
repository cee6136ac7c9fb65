"""A break costs one instruction: what comes before it and what comes after it are graphs, on every path."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import functools
import gc
import io
import sys
import traceback
import types
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import framelift
from framelift.native import _core
from framelift.report.text import graph_ops
from tests.helpers import check
from tests.helpers.record import Record

graph_break = framelift.graph_break


def x() -> torch.Tensor:
    return torch.ones(2, 2, requires_grad=True)


def graphs_of(fn: Any, *args: Any, **options: Any) -> list[int]:
    """The number of operations of each graph, in the order of capture; the results must be eager's."""
    return [len(graph_ops(graph)) for graph in check(fn, *args, expect_breaks=None, **options).graphs]


def in_python(function: Any) -> Any:
    """A function that Python runs, while what it calls is lifted."""
    return framelift.disable(function, recursive=False)


# -- how many graphs -------------------------------------------------------------------------------------------------


def test_straight_line():
    def fn(x):
        y = x + 1
        graph_break()
        return y * 2 - 1

    assert graphs_of(fn, x()) == [1, 2]


def test_the_first_statement():
    def fn(x):
        graph_break()
        return x * 2

    assert graphs_of(fn, x()) == [1]


def test_several_in_a_row():
    def fn(x):
        x = x + 1
        graph_break()
        x = x * 2
        graph_break()
        x = x - 3
        graph_break()
        return x / 4

    assert graphs_of(fn, x()) == [1, 1, 1, 1]


def test_what_only_returns_is_not_captured():
    def fn(x):
        y = x + 1
        z = (y, 1)
        graph_break()
        return z

    checked = check(fn, x(), expect_breaks=1)
    assert checked.record.captures == 1


class Slotted:
    __slots__ = ("v",)

    def __init__(self, v):
        self.v = v

    def twice(self):
        return self.v * 2


def in_a_cell(v):
    graph_break()
    return [v * k for k in (2, 3)][0] + 1


def in_a_closure(v):
    def inner():
        return v * 2

    graph_break()
    return inner() + 1


def in_a_slot(v):
    holder = Slotted(v)
    graph_break()
    return holder.v * 2 + 1


def behind_a_method(v):
    method = Slotted(v).twice
    graph_break()
    return method() + 1


def in_a_partial(v):
    held = functools.partial(torch.mul, v)
    graph_break()
    return held(2) + 1


def in_a_queue(v):
    held = collections.deque([v])
    graph_break()
    return held[0] * 2 + 1


def in_an_iterator(v):
    held = iter([v, v])
    graph_break()
    return next(held) * 2 + 1


def deep_within(v):
    held = {"a": [(Slotted(v),)]}
    graph_break()
    return held["a"][0][0].v * 2 + 1


@pytest.mark.parametrize(
    "program",
    [
        in_a_cell,
        in_a_closure,
        in_a_slot,
        behind_a_method,
        in_a_partial,
        in_a_queue,
        in_an_iterator,
        deep_within,
    ],
)
def test_tensors_that_something_holds_over_the_break(program):
    """What follows is captured whole, although no variable is a tensor and no operation came before."""
    checked = check(program, x(), expect_breaks=1)
    assert len(checked.graphs) == 1 and checked.ops >= 2


def test_a_try():
    def fn(x):
        y = x + 1
        try:
            y = y * 2
            graph_break()
            y = y * 3
        finally:
            y = y + 1
        return y

    assert graphs_of(fn, x()) == [2, 2]


class Logged:
    def __init__(self):
        self.log = []

    def __enter__(self):
        self.log.append("enter")
        return self.log

    def __exit__(self, kind, error, traceback):
        self.log.append((kind, str(error)))
        return kind is ValueError


def test_a_with_block_of_the_users():
    def fn(x):
        y = x + 1
        with Logged() as log:
            y = y * 2
            graph_break()
            y = y * 3
        return y * 2, log

    assert graphs_of(fn, x()) == [2, 2]


def test_a_with_block_left_by_an_exception():
    def fn(x):
        y = x + 1
        with Logged() as log:
            y = y * 2
            complain(y)
            y = y * 3
        return y * 2, log

    assert graphs_of(fn, x()) == [2, 1]


@framelift.disable
def complain(y):
    raise ValueError(f"{y.dim()}")


def test_no_grad_on_both_sides():
    def fn(x):
        y = x + 1
        with torch.no_grad():
            y = y * 2
            graph_break()
            z = y * x
        return z + x * 2, z.requires_grad, torch.is_grad_enabled()

    check(fn, x(), expect_breaks=1)


def test_autocast_on_both_sides():
    def fn(x):
        y = x @ x
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = y @ x
            graph_break()
            z = y @ x
        return z.dtype, y.dtype, z + x, (z.float() @ x).dtype

    check(fn, x().detach(), expect_breaks=1)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_autocast_to_either_type_in_compiled_graphs(dtype, backend):
    def fn(x):
        y = x @ x
        with torch.autocast("cpu", dtype=dtype):
            y = y @ x
            with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
                graph_break()
                w = x @ x
            graph_break()
            z = y @ x
        return z.dtype, y.dtype, w.dtype, z + x, torch.get_autocast_dtype("cpu"), torch.is_autocast_cache_enabled()

    check(fn, x().detach(), expect_breaks=2, backend=backend)


def test_the_mode_while_the_instruction_runs():
    seen = []

    @framelift.disable
    def look():
        seen.append((torch.is_grad_enabled(), torch.is_autocast_enabled("cpu")))

    def fn(x):
        y = x + 1
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
            look()
        look()
        return y * 2, list(seen)

    lifted = framelift.compile(fn, backend="eager")
    lifted(x())
    assert seen == [(False, True), (True, False)]


@pytest.mark.parametrize("sign", [1, -1])
def test_both_sides_of_a_branch_on_data(sign):
    def fn(x):
        y = x + 1
        if y.sum() > 0:
            y = y * 2 + 1
        else:
            y = y * 3
        return y - 1

    after = [3] if sign == 1 else [2]
    record = Record()
    lifted = framelift.compile(fn, backend="eager")
    with record.listening():
        result = lifted(sign * 5 * x())
    assert torch.equal(result, fn(sign * 5 * x()))
    assert [len(graph_ops(graph)) for graph in record.graphs][1:] == after


def test_the_other_side_is_captured_when_it_is_reached():
    def fn(x):
        if x.sum() > 0:
            return x * 2
        return x * 3

    lifted = framelift.compile(fn, backend="eager")
    counts = []
    for sign in (1, -1, 1, -1):
        record = Record()
        with record.listening():
            assert torch.equal(lifted(sign * x()), fn(sign * x()))
        counts.append(record.captures)
    assert counts == [2, 1, 0, 0]


def test_a_handler():
    """The exception is real, raised by Python; before, in and after its handler there are graphs."""

    def fn(x):
        y = x + 1
        try:
            raise ValueError("a")
        except ValueError as error:
            y = y * 2
            graph_break(str(error))
        return y * 3

    assert graphs_of(fn, x()) == [1, 1, 1]


def test_saving_a_tensor():
    def fn(x, buffer):
        y = x**2 / 2
        torch.save(y, buffer)
        return y**3 / 6

    checked = check(fn, x().detach(), inputs=lambda: (x().detach(), io.BytesIO()), expect_breaks=1)
    assert [len(graph_ops(graph)) for graph in checked.graphs] == [2, 2]


def test_no_tensor_goes_over_the_break():
    def made(size):
        return torch.ones(size)

    held = [made]

    def fn(x, size):
        log = [float(x.detach().sum())]
        graph_break()
        y = held[0](size)
        return y.sin() + 1, log

    assert graphs_of(fn, x(), 3)[-1] == 3


def test_a_coroutine():
    async def later(v):
        await asyncio.sleep(0)
        return v + 1

    def fn(x):
        y = x.sin()
        z = asyncio.run(later(y))
        return z.cos() * 2

    assert graphs_of(fn, x()) == [1, 2]


def test_a_comprehension():
    def fn(x):
        y = x + 1
        parts = [y * 2 for _ in range(3) if graph_break() is None]
        return parts[0] + parts[1] - parts[2]

    check(fn, x(), expect_breaks=None, expect_ops=4)


def test_all_variables_are_there_for_who_looks():
    def fn(x):
        y = x + 1
        unused = 7  # noqa: F841
        graph_break()
        z = y * 2
        return sorted(locals()), z

    assert graphs_of(fn, x()) == [1, 1]


@pytest.mark.parametrize("owner", [set, list, dict, io.StringIO, lambda: torch.zeros(2, 2)])
def test_a_method_of_c_code_that_waits_to_be_called(owner):
    """It is a new object each time, so its identity is no fact to rely on."""
    name = {set: "add", list: "append", dict: "get", io.StringIO: "write"}.get(owner, "add_")

    def fn(x, thing):
        y = x + 1
        call = getattr(thing, name)
        call(str(graph_break()) if name == "write" else 1 if graph_break() is None else 2)
        return y * 2

    lifted = framelift.compile(fn, backend="eager")
    assert torch.equal(lifted(x(), owner()), fn(x(), owner()))
    record = Record()
    with record.listening():
        lifted(x(), owner())
    assert record.captures == 0


def test_variables_in_cells():
    def fn(x):
        count = 0
        y = x + 1

        def bump():
            nonlocal count
            count += 1
            return y * count

        a = bump()
        graph_break()
        y = y * 2
        b = bump()
        graph_break()
        return a + b + bump(), count

    assert graphs_of(fn, x()) == [2, 2, 3]


def test_free_variables():
    weight, table = torch.full((2, 2), 3.0), {"k": 2}

    def fn(x):
        y = x * weight
        graph_break()
        return y * weight * table["k"], (lambda v: v + weight)(y)

    assert graphs_of(fn, x()) == [1, 3]


# -- loops -----------------------------------------------------------------------------------------------------------


@in_python
def depth() -> int:
    frame, count = sys._getframe(), 0
    while frame is not None:
        count, frame = count + 1, frame.f_back
    return count


@pytest.mark.parametrize("hooked", [False, True])
def test_a_loop_takes_no_stack_and_no_captures(hooked):
    def fn(x, n):
        depths = set()
        for _ in range(n):
            x = x * 1.0
            depths.add(depth())
        return x, len(depths)

    lifted = framelift.optimize("eager")(fn) if hooked else framelift.compile(fn, backend="eager")
    limit = sys.getrecursionlimit()
    start = torch.ones(2)
    lifted(start, 3000)
    record = Record()
    with record.listening():
        result, depths = lifted(start, 3000)
    assert torch.equal(result, start) and depths == 1 and record.captures == 0
    assert sys.getrecursionlimit() == limit


def test_a_loop_has_one_graph_for_each_segment():
    def fn(x):
        y = x + 1
        for _ in range(20):
            y = y * 1.5
            graph_break()
            y = y - 1
        return y / 2

    record = check(fn, x(), expect_breaks=None).record
    assert record.captures <= 5


def test_nested_loops_with_continue_and_else():
    def fn(x, seen):
        y = x + 1
        for i in range(3):
            for j in [1, 2]:
                if i == j:
                    seen.append((i, j))
                    graph_break()
                    continue
                y = y + 1
            else:
                graph_break()
            if i == 2:
                break
        else:
            y = y * 100
        return y

    check(fn, x(), [], expect_breaks=None)


def test_an_exception_that_leaves_a_loop():
    def fn(x):
        y = x + 1
        for i in (1, 0, 2):
            try:
                y = y + 1
                divide(y, i)
                y = y * 2
            except ZeroDivisionError:
                y = y - 5
                continue
            finally:
                y = y + 3
        return y

    check(fn, x(), expect_breaks=None)


@framelift.disable
def divide(y, i):
    return 1 // i


# -- exceptions and tracebacks ---------------------------------------------------------------------------------------


def lines_of(function: Any, *args: Any) -> list[tuple[str, int]]:
    with pytest.raises(ValueError) as caught:
        function(*args)
    rows = traceback.extract_tb(caught.value.__traceback__)
    return [(row.name, row.lineno or 0) for row in rows if row.filename == __file__][1:]


def test_the_traceback_of_the_instruction():
    def fn(x):
        y = x + 1
        graph_break()
        y = y * 2
        complain(y)
        return y * 3

    assert lines_of(framelift.compile(fn, backend="eager"), x()) == lines_of(fn, x())


def test_the_traceback_of_what_comes_after():
    def fn(x):
        y = x + 1
        graph_break()
        y = y * 2
        raise ValueError("late")

    assert lines_of(framelift.compile(fn, backend="eager"), x()) == lines_of(fn, x())


def test_an_exception_is_raised_again():
    def fn(x):
        try:
            complain(x + 1)
        except ValueError:
            y = x * 2
            graph_break()
            if y.dim() == 2:
                raise

    assert lines_of(framelift.compile(fn, backend="eager"), x()) == lines_of(fn, x())


def test_context_and_cause():
    def fn(x):
        y = x + 1
        graph_break()
        try:
            complain(y)
        except ValueError as error:
            raise RuntimeError("outer") from error

    with pytest.raises(RuntimeError) as caught:
        framelift.compile(fn, backend="eager")(x())
    assert isinstance(caught.value.__cause__, ValueError) and caught.value.__context__ is caught.value.__cause__


# -- who is alive ----------------------------------------------------------------------------------------------------


def test_a_variable_that_is_deleted_is_gone():
    gone = []

    @framelift.disable
    def look(reference):
        gone.append(reference() is None)

    class Thing:
        pass

    def fn(x):
        thing = Thing()
        reference = weakref.ref(thing)
        y = x + 1
        look(reference)
        del thing
        y = y * 2
        look(reference)
        return y

    framelift.compile(fn, backend="eager")(x())
    assert gone == [False, True]


def test_pieces_die_with_their_function():
    namespace: dict[str, Any] = {"graph_break": graph_break}
    source = "def fn(x):\n    for i in range(3):\n        x = x + 1\n        graph_break()\n    return x"
    exec(compile(source, "pieces.py", "exec"), namespace)
    fn = namespace.pop("fn")
    framelift.compile(fn, backend="eager")(x())
    before = _resume_codes(fn.__code__)
    assert before
    reference = weakref.ref(fn.__code__)
    del fn
    gc.collect()
    assert reference() is None
    assert not [code for code in before if code() is not None]


def _resume_codes(original: types.CodeType) -> list[weakref.ref[types.CodeType]]:
    owned = [table.code for table in _core.all_tables() if table.code is not None]
    return [weakref.ref(code) for code in owned if code.co_filename == "pieces.py" and code is not original]


def test_a_break_in_a_generator_based_context_manager():
    log: list[str] = []

    @contextlib.contextmanager
    def managed():
        log.append("in")
        try:
            yield 2
        finally:
            log.append("out")

    def fn(x):
        with managed() as k:
            y = x * k
            print("middle")
            y = y + k
        return y * 2

    assert sum(graphs_of(fn, x())) == 3


def test_the_hook_lifts_what_follows_a_break():
    def inner(x):
        y = x + 1
        graph_break()
        return y * 2

    @functools.partial(framelift.disable, recursive=False)
    def called(x):
        return inner(x)

    def fn(x):
        return called(x) - 1

    assert graphs_of(fn, x()) == [1, 1, 1]


# -- what goes wrong behind a break reaches the handlers that were entered before it -----------------------------------


class Stop(BaseException):
    """Like KeyboardInterrupt: nothing that an `except Exception` handles."""


@pytest.mark.parametrize("when", ["compiling", "running"])
@pytest.mark.parametrize("inlined", [False, True])
def test_an_interrupt_behind_a_break_reaches_the_handlers(when, inlined):
    graphs = []

    def backend(graph_module, example_inputs):
        graphs.append(graph_module)

        def run(*args):
            if len(graphs) == 2 and when == "running":
                raise Stop
            return graph_module(*args)

        if len(graphs) == 2 and when == "compiling":
            raise Stop
        return run

    log = []

    def body(x):
        y = x + 1
        graph_break()
        return y * 2

    def fn(x):
        with torch.no_grad():
            try:
                if inlined:
                    return body(x)
                y = x + 1
                graph_break()
                return y * 2
            finally:
                log.append(torch.is_grad_enabled())

    with pytest.raises(Stop) as caught:
        framelift.compile(fn, backend=backend)(x())
    assert log == [False] and torch.is_grad_enabled()
    names = [row.name for row in traceback.extract_tb(caught.value.__traceback__) if row.filename == __file__]
    assert names[1:] == (["fn", "body"] if inlined else ["fn"])


class _Mortal:
    pass


def test_what_is_deleted_behind_a_break_dies():
    """A resumed frame is the only one to hold its variables."""

    def f(x):
        obj = _Mortal()
        reference = weakref.ref(obj)
        y = x + 1
        framelift.graph_break()
        del obj
        first = reference() is None
        circle = _Mortal()
        circle.itself = circle
        reference = weakref.ref(circle)
        del circle
        gc.collect()
        return y * 2, first, reference() is None

    assert framelift.compile(f, backend="eager")(torch.ones(2))[1:] == (True, True)


def endless(value: int) -> int:
    return endless(value) + 1


def left_for_good_in_a_block(x: torch.Tensor, log: list[int]) -> torch.Tensor:
    try:
        framelift.graph_break()
        with torch.no_grad():
            log.append(endless(1))
    finally:
        log.append(2)
    return x


def test_what_python_finishes_leaves_its_blocks_once() -> None:
    log: list[int] = []
    lifted = framelift.compile(left_for_good_in_a_block, backend="eager")
    with pytest.raises(RecursionError) as caught:
        lifted(torch.ones(2), log)
    assert log == [2]
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert [frame.name for frame in frames[1:4]] == ["left_for_good_in_a_block", "endless", "endless"]
    assert frames[1].line == "log.append(endless(1))"
    assert not any("/src/framelift/" in frame.filename for frame in frames)


def closing(log: list[str]) -> Any:
    try:
        yield None
    finally:
        log.append("closed")


def left_by_an_exception(x: torch.Tensor, log: list[str]) -> Any:
    y = x + 1
    try:
        for item in closing(log):
            y = y + len(item)
    except KeyError:
        pass
    return y


def test_generators_are_closed_when_an_exception_leaves_their_loop() -> None:
    check(left_by_an_exception, torch.ones(2), [], expect_breaks=None)


class Token:
    pass


def unhandled(x: torch.Tensor, token: Token) -> Any:
    try:
        return x + 1, len(x.shape) / None  # type: ignore[operator]
    finally:
        graph_break()


def handled(x: torch.Tensor, token: Token) -> Any:
    try:
        raise ValueError(1)
    except ValueError:
        graph_break()
    return x + 1


def halted(value: Any) -> Any:
    graph_break()
    return value


def handled_by_a_call(x: torch.Tensor, token: Token) -> Any:
    try:
        raise ValueError(1)
    except ValueError:
        halted(1)
    return x + 1


def raising() -> None:
    raise ValueError(1)


class WithoutAnswer:
    @property
    def answer(self) -> Any:
        raise AttributeError("none")


def raised_by_a_call(x: torch.Tensor, token: Token) -> Any:
    with contextlib.suppress(ValueError):
        raising()
    return x + 1


def raised_by_a_property(x: torch.Tensor, token: Token) -> Any:
    return x + 1, getattr(WithoutAnswer(), "answer", 1)


def raised_to_the_caller(x: torch.Tensor, token: Token) -> Any:
    x.add_(1)
    raising()


RAISING = [unhandled, handled, handled_by_a_call, raised_by_a_call, raised_by_a_property, raised_to_the_caller]


@pytest.mark.parametrize("program", RAISING)
def test_captures_hold_no_arguments(program: Any) -> None:
    lifted = framelift.compile(program, backend="eager")
    with contextlib.suppress(TypeError, ValueError):  # whatever torch loads with its first capture
        lifted(torch.ones(2), Token())
    framelift.reset()
    gc.disable()
    try:
        token = Token()
        seen = weakref.ref(token)
        with contextlib.suppress(TypeError, ValueError):
            lifted(torch.ones(3), token)
        del token
        assert seen() is None
    finally:
        gc.enable()


def noting_its_end(log: list[int]) -> Iterator[int]:
    try:
        yield 1
        yield 2
    finally:
        log.append(7)


def test_an_error_ends_the_generator_of_the_loop_it_leaves() -> None:
    def in_a_handler(x: torch.Tensor, log: list[int]) -> None:
        y = x + 1
        for number in noting_its_end(log):
            try:
                raise ValueError(number)
            except ValueError:
                if halted(2) > 1:
                    raise KeyError(y.shape) from None

    def of_a_group(x: torch.Tensor, log: list[int]) -> None:
        y = x + 1
        for number in noting_its_end(log):
            try:
                raise ExceptionGroup("g", [ValueError(number), TypeError("other")])
            except* ValueError:
                if halted(2) > 1:
                    raise KeyError(y.shape) from None

    for function in (in_a_handler, of_a_group):
        check(function, torch.ones(2), [1], expect_breaks=None)


def relaying(log: list[int]) -> Iterator[Any]:
    try:
        yield from (2, 1, None)
    finally:
        log.append(7)


@contextlib.contextmanager
def noted(log: list[int]) -> Iterator[int]:
    log.append(5)
    try:
        yield len(log)
    finally:
        log.append(8)


def test_a_generator_that_was_traced_keeps_no_other_alive() -> None:
    def program(x: torch.Tensor, ended: list[int], log: list[int]) -> Any:
        for number in relaying(ended):
            number + 1
            with noted(log):
                pass
        return x + 1

    gc.disable()
    try:
        check(program, torch.ones(2), [1], [], expect_breaks=None, expect_ops=0)
    finally:
        gc.enable()


class Holder:
    def __init__(self, first: Any, second: Any) -> None:
        self.first, self.second = first, second


def left_within_a_display(x: torch.Tensor, queue: Any) -> Any:
    y = x + 1
    made = {"a": 1, "b": 2}
    one, two = Holder(1, x), Holder(1, 2)
    try:
        for item in queue:
            queue.append(item)
    except TypeError:
        pass
    return y, made, one, two


def test_a_frame_goes_on_where_the_keys_of_a_dict_are_on_the_stack() -> None:
    check(left_within_a_display, torch.ones(2), collections.deque([1, 2]), expect_breaks=None, expect_ops=0)


# Not here, where annotations are texts.
ANNOTATED = """
def fn(x):
    def inner(a: int, b: graph_break() = 2, *, c: float = 3) -> graph_break():
        return a * b + c

    return inner(x), inner.__annotations__
"""


def test_in_the_annotations_of_a_function():
    made = {"graph_break": graph_break}
    exec(compile(ANNOTATED, "<annotated>", "exec", dont_inherit=True), made)
    assert graphs_of(made["fn"], x()) == [2]


class Answering(dict):
    def __missing__(self, name):
        return int(name.removeprefix("number_"))


def test_globals_that_answer_for_themselves():
    def of_numbers(x):
        return x + number_3 * number_4  # noqa: F821

    odd = types.FunctionType(of_numbers.__code__, Answering(__builtins__=__builtins__))

    def fn(x):
        return odd(x * 2) + 1

    expected = x() * 2 + 13
    with Record().listening() as record:
        assert torch.equal(framelift.compile(fn, backend="eager")(x()), expected)
        assert torch.equal(framelift.compile(odd, backend="eager")(x() * 2), expected - 1)
    assert not record.failures and record.graphs
