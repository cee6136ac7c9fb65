"""What a program tells the world (print, warnings, log records) is journaled: no break, eager's order and text."""

import contextlib
import functools
import io
import logging
import sys
import warnings

import pytest
import torch

import framelift
from tests.helpers import check

LOG = logging.getLogger("tests.effects.output")


def both(fn, *args, **options):
    """What eager and a lifted function write to stdout, twice each, in one graph."""
    lifted = framelift.compile(fn, backend="eager", fullgraph=True, **options)
    texts = []
    for function in (fn, fn, lifted, lifted):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            function(*args)
        texts.append(out.getvalue())
    assert texts[0] == texts[1], "eager itself is not deterministic"
    return texts[0], texts[2:]


class TestPrint:
    def test_constants_separators_and_ends(self):
        def fn(x):
            print("shape", x.shape, 3, None, [1, "a"], sep="-", end="!\n")
            print()
            print("é", {"k": 1.5}, sep=None, end=None)
            return x + 1

        assert check(fn, torch.ones(2, 3)).value is not None

    def test_a_tensor_is_shown_as_it_was_at_that_point(self):
        def fn(x):
            y = x * 2
            print("before", y)
            y.add_(1)
            print("after", y)
            return y

        check(fn, torch.ones(3))

    def test_an_input_is_shown_as_it_was_at_that_point(self):
        def fn(x):
            print(x)
            x.mul_(3)
            print(x)
            return x + 1

        check(fn, torch.ones(3))

    def test_containers_are_shown_as_they_were(self):
        def fn(x):
            seen = [1, x]
            print(seen, {"x": x, "n": (x, 2)})
            seen.append(3)
            print(seen)
            return x + 1

        check(fn, torch.ones(2))

    def test_formatted_tensors(self):
        def fn(x):
            total = x.sum()
            print(f"sum {total:.3f} {total} {x} {x!r} {[x]}")
            print("%s and %r, %5d" % (x, total, 7))
            print("a" + str(x) + "b" + f"{x}")
            return total + 1

        check(fn, torch.ones(2))

    def test_a_number_that_needs_gradients_is_formatted(self):
        def fn(x):
            loss = (x * x).sum()
            print(f"loss {loss:.2f}")
            return loss

        check(fn, torch.ones(2, requires_grad=True))

    def test_a_text_that_names_the_gradient_function_is_a_break(self):
        def fn(x):
            y = x * 2
            print(y)
            return y + 1

        checked = check(fn, torch.ones(2, requires_grad=True), expect_breaks=1)
        assert checked.record.breaks

    def test_a_printed_counter_needs_no_entry_of_its_own(self):
        def fn(x, n):
            print("step", n)
            return x + 1

        lifted = framelift.compile(fn, backend="eager", fullgraph=True)
        x = torch.ones(2)
        for n in range(20):
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                lifted(x, n)
            assert out.getvalue() == f"step {n}\n"

    def test_order_among_streams_and_changes(self):
        log = []

        def fn(x):
            log.append("a")
            print("one", file=sys.stderr)
            sys.stdout.write("two\n")
            log.append("b")
            print("three", flush=True)
            return x + len(log)

        lifted = framelift.compile(fn, backend="eager", fullgraph=True)
        outcomes = []
        for function in (fn, lifted):
            del log[:]
            out = io.StringIO()
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
                value = function(torch.ones(2))
            outcomes.append((out.getvalue(), list(log), value.tolist()))
        assert outcomes[0] == outcomes[1]

    def test_a_break_keeps_what_was_printed_before_it(self):
        def fn(x):
            print("before")
            y = x + 1
            framelift.graph_break()
            print("behind")
            return y * 2

        check(fn, torch.ones(2), expect_breaks=None)

    def test_what_an_undone_call_printed_is_printed_once(self):
        def inner(x):
            print("inner")
            framelift.graph_break()
            return x + 1

        def fn(x):
            y = x * 2
            print("outer")
            return inner(y)

        check(fn, torch.ones(2), expect_breaks=None)

    def test_printed_before_an_exception(self):
        def fn(x):
            y = x + 1
            print("going to fail", y)
            raise ValueError("failed")

        check(fn, torch.ones(2), expect_breaks=None, expect_ops=0)

    def test_a_graph_that_raises_prints_what_eager_prints(self):
        def fn(x, index):
            print("before")
            try:
                y = x.index_select(0, index)
                print("selected", y)
            except IndexError:
                print("handled")
                y = x
            return y

        check(fn, torch.ones(3), torch.tensor([0, 7]), expect_breaks=None, expect_ops=0)

    def test_a_stream_written_in_python_is_traced(self):
        class Stream:
            def __init__(self):
                self.parts = []

            def write(self, text):
                self.parts.append(text)

        def fn(x, stream):
            print("a", "b", file=stream)
            return x + len(stream.parts)

        check(fn, torch.ones(2), Stream())

    def test_a_stream_that_is_replaced_is_used(self):
        def fn(x):
            print("hello")
            return x + 1

        text, lifted = both(fn, torch.ones(2))
        assert lifted == [text, text]

    def test_a_closed_stream_raises_where_eager_raises(self):
        stream = io.StringIO()

        def fn(x):
            y = x + 1
            try:
                print("hello", file=stream)
            except ValueError as error:
                return y, str(error)
            return y

        lifted = framelift.compile(fn, backend="eager")
        x = torch.ones(2)
        assert torch.equal(lifted(x), x + 1)
        stream.close()
        assert lifted(x)[1] == fn(x)[1]

    def test_a_method_put_on_the_class_of_a_stream_is_seen(self):
        class Stream(io.StringIO):
            pass

        stream = Stream()

        def fn(x):
            print("hello", file=stream)
            return x + 1

        lifted = framelift.compile(fn, backend="eager")
        lifted(torch.ones(2))
        Stream.write = lambda self, text: io.StringIO.write(self, text.upper())
        lifted(torch.ones(2))
        assert stream.getvalue() == "hello\nHELLO\n"

    def test_characters_the_encoding_does_not_have(self):
        buffer = io.BytesIO()
        stream = io.TextIOWrapper(buffer, encoding="ascii")

        def fn(x):
            y = x + 1
            try:
                print("é", file=stream)
            except UnicodeEncodeError:
                return y * 2
            return y

        lifted = framelift.compile(fn, backend="eager")
        assert torch.equal(lifted(torch.ones(2)), torch.full((2,), 4.0))

    def test_on_a_compiling_backend(self):
        def fn(x):
            y = x * 2
            print("y", y)
            return y + 1

        check(fn, torch.ones(2), backend="aot_eager")


def caught(fn, *args, action="always"):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter(action)
        value = fn(*args)
    return [(str(w.message), w.category, w.filename, w.lineno) for w in found], value


def helper(level):
    warnings.warn("from the helper", DeprecationWarning, stacklevel=level)


class TestWarnings:
    def compare(self, fn, action="always", breaks=False):
        lifted = framelift.compile(fn, backend="eager", fullgraph=not breaks)
        x = torch.ones(2)
        for _ in range(2):
            expected, found = caught(fn, x, action=action), caught(lifted, x, action=action)
            assert found[0] == expected[0]
            assert torch.equal(found[1], expected[1])

    def test_the_users_line(self):
        def fn(x):
            warnings.warn("plain")
            warnings.warn(UserWarning("an instance"))
            return x + 1

        self.compare(fn)

    @pytest.mark.parametrize("level", [1, 2, 3])
    def test_stack_levels(self, level):
        def fn(x):
            helper(level)
            return x + 1

        def caller(function):
            return lambda x: function(x)

        lifted = framelift.compile(fn, backend="eager", fullgraph=True)
        outcomes = []
        for function in (fn, lifted):
            outcomes.append(caught(caller(function), torch.ones(2))[0])
        assert outcomes[0] == outcomes[1]

    @pytest.mark.parametrize("level", [1, 2, 3, 4])
    def test_stack_levels_behind_a_break(self, level):
        def inner(x):
            x = x + 1
            framelift.graph_break()
            helper(level)
            return x * 2

        def fn(x):
            return inner(x) - 1

        self.compare(fn, breaks=True)

    def test_models_are_no_frames(self):
        def fn(x):
            def add(a, b):
                warnings.warn("adding", stacklevel=2)
                return a + b

            return functools.reduce(add, [x, x])

        self.compare(fn)

    def test_a_filter_that_raises_is_respected(self):
        def fn(x):
            y = x + 1
            try:
                warnings.warn("careful")
            except UserWarning as error:
                return y * len(error.args[0])
            return y

        self.compare(fn, action="error")
        self.compare(fn, action="ignore")

    def test_filters_that_change_are_seen(self):
        def fn(x):
            try:
                warnings.warn("careful")
            except UserWarning:
                return x * 2
            return x + 1

        lifted = framelift.compile(fn, backend="eager", fullgraph=True)
        x = torch.ones(2)
        for action in ("always", "error", "ignore", "error", "always"):
            assert caught(lifted, x, action=action)[0] == caught(fn, x, action=action)[0]
            assert torch.equal(caught(lifted, x, action=action)[1], caught(fn, x, action=action)[1])

    def test_filters_by_message_and_category(self):
        def fn(x):
            try:
                warnings.warn("first thing")
                warnings.warn("second thing")
            except UserWarning as error:
                return x + len(str(error))
            return x

        lifted = framelift.compile(fn, backend="eager", fullgraph=True)
        for function in (fn, lifted):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                warnings.filterwarnings("error", message="second")
                warnings.filterwarnings("error", category=DeprecationWarning)
                assert torch.equal(function(torch.ones(2)), torch.full((2,), 13.0))

    def test_once_per_line(self):
        def fn(x):
            for _ in range(3):
                warnings.warn("again and again")
            return x + 1

        lifted = framelift.compile(fn, backend="eager", fullgraph=True)
        assert len(caught(lifted, torch.ones(2), action="default")[0]) == 1

    def test_in_the_test_helper(self):
        def fn(x):
            warnings.warn(f"shape {tuple(x.shape)}", RuntimeWarning, stacklevel=2)
            return x + 1

        check(fn, torch.ones(2), expect_hit=False)


class Records(logging.Handler):
    def __init__(self):
        super().__init__()
        self.seen = []

    def emit(self, record):
        self.seen.append((record.levelname, record.getMessage(), record.pathname, record.lineno, record.funcName))


@pytest.fixture
def records():
    handler = Records()
    LOG.addHandler(handler)
    LOG.setLevel(logging.INFO)
    yield handler
    LOG.removeHandler(handler)
    LOG.setLevel(logging.NOTSET)


class TestLogging:
    def compare(self, fn, records, *args):
        lifted = framelift.compile(fn, backend="eager", fullgraph=True)
        outcomes = []
        for function in (fn, lifted, lifted):
            del records.seen[:]
            function(*args)
            outcomes.append(list(records.seen))
        assert outcomes[0] == outcomes[1] == outcomes[2]
        return outcomes[0]

    def test_levels_arguments_and_lines(self, records):
        def inner(x):
            LOG.warning("inner %d of %s", 3, "a")
            return x + 1

        def fn(x):
            LOG.info("shape %s", x.shape)
            LOG.debug("never seen %s", x)
            LOG.log(logging.ERROR, "logged")
            return inner(x)

        assert len(self.compare(fn, records, torch.ones(2))) == 3

    def test_a_tensor_is_logged_as_it_was(self, records):
        def fn(x):
            y = x * 2
            LOG.info("y %s %s", y, [y])
            y.add_(1)
            LOG.info(f"{y}")
            return y

        self.compare(fn, records, torch.ones(2))

    def test_stacklevel_reaches_the_caller(self, records):
        def fn(x):
            LOG.info("told by the caller", stacklevel=2)
            return x + 1

        def call(function):
            function(torch.ones(2))

        lifted = framelift.compile(fn, backend="eager", fullgraph=True)
        for function in (fn, lifted):
            call(function)
        assert records.seen[0] == records.seen[1]
        assert records.seen[0][-1] == "call"

    def test_a_level_that_changes_is_seen(self, records):
        def fn(x):
            LOG.info("hello")
            return x + 1

        lifted = framelift.compile(fn, backend="eager", fullgraph=True)
        lifted(torch.ones(2))
        LOG.setLevel(logging.ERROR)
        lifted(torch.ones(2))
        assert len(records.seen) == 1
        LOG.setLevel(logging.INFO)
        logging.disable(logging.INFO)
        try:
            lifted(torch.ones(2))
        finally:
            logging.disable(logging.NOTSET)
        assert len(records.seen) == 1

    def test_extra_and_adapters(self, records):
        adapter = logging.LoggerAdapter(LOG, {"rank": 1})

        def fn(x):
            adapter.info("hello")
            LOG.info("more", extra={"rank": 2})
            return x + 1

        assert len(self.compare(fn, records, torch.ones(2))) == 2

    def test_a_traceback_is_a_break(self, records):
        def fn(x):
            y = x + 1
            try:
                raise ValueError("a")
            except ValueError:
                LOG.exception("failed")
            return y

        lifted = framelift.compile(fn, backend="eager")
        lifted(torch.ones(2))
        assert records.seen[0][1] == "failed"
