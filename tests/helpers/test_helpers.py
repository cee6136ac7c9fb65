"""The helpers themselves: a lifted function that does anything differently must not pass.

Lifting is replaced by a stand-in that runs a given function instead of the original and emits the events a capture
would, so that each test can be wrong in one way.
"""

import random
import warnings

import pytest
import torch

from framelift import runtime
from framelift.report import stream
from framelift.report.events import CaptureStarted, GraphBroke, GraphCaptured, InternalFailure, Recompiled
from tests.helpers import Canary, assert_same, check, transcript, watched
from tests.helpers.same import Difference
from tests.helpers.traces import lines_of

X = torch.ones(2)


@pytest.fixture
def lifting(monkeypatch):
    """`lifting(wrong, ...)`: from now on a lifted function runs `wrong` instead (None: the original)."""

    def install(wrong=None, *, ops=1, breaks=0, failure=False, every_call=False):
        def lift_function(function, options):
            seen = []

            def lifted(*args, **kwargs):
                if every_call or not seen:
                    seen.append(1)
                    capture = stream.new_capture()
                    stream.emit(CaptureStarted(capture, function.__name__, __file__, 1))
                    if len(seen) > 1:
                        stream.emit(Recompiled(capture, function.__name__, (f"reason {len(seen)}",)))
                    for number in range(breaks):
                        stream.emit(GraphBroke(capture, "FL0103", "test", __file__, number))
                    if failure:
                        stream.emit(InternalFailure(capture, "FL9999", function.__name__, "test"))
                    if ops:
                        stream.emit(GraphCaptured(capture, torch.fx.symbolic_trace(lambda x: x + 1), ops, ("x",)))
                return function(*args, **kwargs) if wrong is None else wrong(function, *args, **kwargs)

            return lifted

        monkeypatch.setattr(runtime, "lift_function", lift_function)

    return install


def test_equal_functions_pass(lifting):
    lifting()
    checked = check(lambda x, k=1: (x * k, [x], {"a": x.sum()}), X, k=3)
    assert checked.ops == 1 and torch.equal(checked.value[0], X * 3)


LOG = []
TOTAL = 0


def returns(value):
    return lambda function, *args: value


def after(act):
    def wrong(function, *args):
        result = function(*args)
        act(*args)
        return result

    return wrong


def raises(error):
    def wrong(function, *args):
        raise error

    return wrong


def bump_total(x):
    global TOTAL
    TOTAL += 1


def add_one(x):
    return x + 1


def fill(items):
    items.append(1)
    return items[0] + 1


def uses_globals(x):
    LOG.append(1)
    return x + TOTAL


def fails(x):
    raise ValueError("no")


WRONG = {
    "value": (add_one, returns(X * 5), X, "tensor values differ"),
    "type": (lambda x: [x + 1], returns((X + 1,)), X, "type list became tuple"),
    "dtype": (add_one, returns((X + 1).double()), X, "dtype"),
    "stride": (lambda x: x.t() + 0, returns(torch.ones(2, 3)), torch.ones(3, 2), "stride"),
    "float bits": (lambda x: 0.0, returns(-0.0), X, "0.0 became -0.0"),
    "dict order": (lambda x: {"a": 1, "b": 2}, returns({"b": 2, "a": 1}), X, "key 'a': 'a' became 'b'"),
    "identity": (lambda x: x, lambda function, x: x.clone(), X, "met before"),
    "shared memory": (lambda x: x.view(-1), lambda function, x: x.clone().view(-1), X, "shares memory"),
    "mutated argument": (add_one, after(lambda x: x.add_(1)), X, "arguments afterwards"),
    "mutated list": (fill, after(lambda items: items.append(2)), [X], "length 2 became 3"),
    "global": (uses_globals, after(bump_total), X, "globals"),
    "global list": (uses_globals, after(lambda x: LOG.append(2)), X, "globals['LOG']: length 1 became 2"),
    "printed": (add_one, after(lambda x: print("hi")), X, "printed"),
    "warning": (add_one, after(lambda x: warnings.warn("hi", stacklevel=1)), X, "warnings"),
    "random": (add_one, after(lambda x: torch.rand(1)), X, "random state"),
    "python random": (add_one, after(lambda x: random.random()), X, "random state"),
    "raises": (add_one, raises(ValueError("x")), X, "lifted raised ValueError: x"),
    "does not raise": (fails, returns(1), X, "eager raised ValueError: no"),
    "other error": (fails, raises(TypeError("no")), X, "lifted raised TypeError"),
    "other message": (fails, raises(ValueError("nay")), X, "lifted raised ValueError: nay"),
    "other line": (fails, raises(ValueError("no")), X, "user's line of the exception"),
    "requires_grad": (add_one, lambda function, x: function(x).detach(), X.clone().requires_grad_(), "requires_grad"),
    "gradient": (
        add_one,
        lambda function, x: function(x) + (x - x.detach()),
        X.clone().requires_grad_(),
        "gradients",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_every_difference_is_found(case, lifting):
    function, wrong, argument, words = WRONG[case]
    lifting(wrong)
    with pytest.raises(AssertionError) as caught:
        check(function, argument)
    assert words in str(caught.value)
    assert "original code:" in str(caught.value) and "graph of capture" in str(caught.value)


def test_second_and_changed_calls_are_compared(lifting):
    calls = []

    def wrong(function, x):
        calls.append(1)
        return function(x) if len(calls) == 1 else x

    lifting(wrong)
    with pytest.raises(AssertionError, match="second call"):
        check(add_one, X)
    lifting(lambda function, x: X + 1)
    with pytest.raises(AssertionError, match="changed call 1"):
        check(add_one, X)
    lifting(lambda function, x: X + 1)
    with pytest.raises(AssertionError, match="changed call 2"):
        check(add_one, X, changed=[(X,), (X * 2,)])


def test_closures_belong_to_their_side(lifting):
    count = 0

    def counting(x):
        nonlocal count
        count += 1
        return x + count

    lifting()
    check(counting, X)
    assert count == 0

    def wrong(function, x):
        result = function(x)
        function.__closure__[0].cell_contents += 1
        return result

    lifting(wrong)
    with pytest.raises(AssertionError, match="closure"):
        check(counting, X)


def test_globals_are_put_back():
    assert LOG == [] and TOTAL == 0


def test_modules_and_their_state(lifting):
    class Counting(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(2, 2)
            self.register_buffer("steps", torch.zeros(()))

        def forward(self, x):
            self.steps += 1
            return self.linear(x)

    lifting()
    module = Counting()
    check(module, X)
    assert module.steps == 0
    lifting(after(lambda self, x: self.steps.add_(1)))
    with pytest.raises(AssertionError, match="steps"):
        check(module, X)


def test_events_are_asserted(lifting):
    lifting(ops=0)
    with pytest.raises(AssertionError, match="captured 0 operations, expected at least 1"):
        check(add_one, X)
    check(add_one, X, expect_ops=0)
    lifting(breaks=2)
    with pytest.raises(AssertionError, match="2 graph breaks, expected 0"):
        check(add_one, X)
    check(add_one, X, expect_breaks=2)
    check(add_one, X, expect_breaks=None)
    lifting(failure=True)
    with pytest.raises(AssertionError, match="failed internally"):
        check(add_one, X)
    check(add_one, X, allow_internal=True)
    lifting(every_call=True)
    with pytest.raises(AssertionError, match="captured again"):
        check(add_one, X)
    check(add_one, X, expect_hit=False)
    check(lambda x: x.add_(1), X)


def test_captures_must_be_deterministic(lifting, monkeypatch):
    lifting()
    stand_in, names = runtime.lift_function, iter("abcdefgh")

    def lift_function(function, options):
        lifted, name = stand_in(function, options), next(names)

        def call(*args):
            stream.emit(GraphBroke(0, "FL0000", name, __file__, 1))
            return lifted(*args)

        return call

    monkeypatch.setattr(runtime, "lift_function", lift_function)
    with pytest.raises(AssertionError, match="two captures of the same frame differ"):
        check(add_one, X, expect_breaks=None)


def test_inputs_that_cannot_be_copied(lifting):
    lifting()
    check(lambda items: next(items) + 1, inputs=lambda: (iter([X, X]),))


def test_transcript(lifting):
    lifting()
    assert transcript(add_one, [(X,), (X,)]) == "miss hit"
    lifting(every_call=True)
    assert transcript(add_one, [(X,), (X,)]) == "miss miss(reason 2)"


def test_canary_counts(lifting):
    lifting()
    canary = Canary(2)

    def use(x, canary):
        return x + canary.value if canary == canary else x

    check(use, X, canary)
    assert canary.sung == {}
    lifting(lambda function, x, canary: [function(x, canary), hash(canary)][0])
    with pytest.raises(AssertionError, match="__hash__"):
        check(use, X, canary)


def test_canary_is_not_disturbed_by_comparison():
    one, two = Canary(), Canary()
    assert_same([one, {"k": one}], [two, {"k": two}])
    assert one.sung == two.sung == {}
    with pytest.raises(Difference, match="identity|met before"):
        assert_same([one, one], [Canary(), Canary()])


def test_watched():
    @watched
    class Thing:
        @property
        def size(self):
            return 3

        def __eq__(self, other):
            return True

        __hash__ = None

    assert Thing() == Thing() and Thing().size == 3
    assert Thing.calls == {"__eq__": 1, "size": 1}


def test_same_compares_sharing_and_views():
    base = torch.arange(6.0)
    assert_same([base[:3], base[3:]], [base[:3], base[3:]])
    other = torch.arange(6.0)
    with pytest.raises(Difference, match="shares memory"):
        assert_same([base[:3], base[:3]], [other[:3], base.clone()[:3]])
    assert_same(
        [float("nan"), 1 + 2j, slice(1, None), {1, (2, 3)}], [float("nan"), 1 + 2j, slice(1, None), {(2, 3), 1}]
    )


def unbound(x):
    y = x + 1
    missing.append(y)  # noqa: F821
    missing = []  # noqa: F841


def test_the_line_of_a_variable_without_value_is_the_same_however_often_it_was_asked_for():
    lines = []
    for _ in range(50):
        try:
            unbound(1)
        except UnboundLocalError as error:
            lines.append(lines_of(error, "")[-1].number)
    assert set(lines) == {unbound.__code__.co_firstlineno + 2}


def test_a_variable_without_value_in_a_function_that_is_warm():
    for _ in range(50):
        with pytest.raises(UnboundLocalError):
            unbound(X)
    check(unbound, X, expect_breaks=None)
