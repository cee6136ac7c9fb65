"""Handlers of log records and of warnings are code of the program's: what they know is as it was when they heard."""

import logging
import warnings

import pytest
import torch

import framelift
from tests.helpers.record import Record

LOG = logging.getLogger("tests.effects.listeners")
LOG.propagate = False
SEEN: list[str] = []
COUNT = 0


class Keeps(logging.Handler):
    """Keeps messages in a list of its own, and counts them."""

    count = 0

    def __init__(self):
        super().__init__()
        self.messages = []
        self.told = 0

    def emit(self, record):
        self.messages.append(record.getMessage())
        self.told += 1
        type(self).count += 1


class Mentions(logging.Handler):
    """Keeps messages in a list that is a variable of this module."""

    def emit(self, record):
        remember(record.getMessage())


class Rebinds(logging.Handler):
    def emit(self, record):
        global COUNT
        COUNT += 1


class Steps(logging.Filter):
    """Writes the step of a trainer into every record."""

    def __init__(self, trainer):
        super().__init__()
        self.trainer = trainer

    def filter(self, record):
        record.msg = f"{record.msg} at {self.trainer.step}"
        return True


class Trainer:
    step = 0


def remember(message):
    SEEN.append(message)


@pytest.fixture
def heard_by():
    """Puts a handler in place until the test ends."""
    LOG.setLevel(logging.INFO)
    yield lambda handler: (LOG.addHandler(handler), handler)[1]
    for handler in list(LOG.handlers):
        LOG.removeHandler(handler)
    SEEN.clear()


def breaks_of(fn, fresh, calls=2):
    """The ids of the breaks in a function whose every call gives the same, eager and lifted, after `fresh()`."""
    x = torch.arange(3.0)
    lifted = framelift.compile(fn, backend="eager")
    fresh()
    expected = [fn(x) for _ in range(calls)]
    fresh()
    with Record().listening() as record:
        given = [lifted(x) for _ in range(calls)]
    for eager, other in zip(expected, given, strict=True):
        assert eager[1:] == other[1:]
        torch.testing.assert_close(eager[0], other[0])
    assert record.ops and not record.failures
    return {event.id for event in record.breaks}


class TestWhatAHandlerChanges:
    def test_its_own_list_read_after_the_record(self, heard_by):
        handler = heard_by(Keeps())

        def fn(x):
            y = x + 1
            LOG.info("a")
            y = y * 2
            return y, len(handler.messages), handler.messages[-1]

        assert breaks_of(fn, handler.messages.clear) == {"FL0110"}

    def test_its_own_list_read_before_and_after(self, heard_by):
        handler = heard_by(Keeps())

        def fn(x):
            before = len(handler.messages)
            y = x + 1
            LOG.info("a")
            y = y * 2
            return y, before, len(handler.messages)

        assert breaks_of(fn, handler.messages.clear) == {"FL0110"}

    def test_its_number(self, heard_by):
        handler = heard_by(Keeps())

        def fn(x):
            LOG.info("a")
            return x + 1, handler.told

        assert breaks_of(fn, lambda: setattr(handler, "told", 0)) == {"FL0110"}

    def test_a_number_of_its_class(self, heard_by):
        heard_by(Keeps())

        def fn(x):
            LOG.info("a")
            return x + 1, Keeps.count

        assert breaks_of(fn, lambda: setattr(Keeps, "count", 0)) == {"FL0110"}

    def test_a_list_of_the_module_it_is_written_in(self, heard_by):
        heard_by(Mentions())

        def fn(x):
            LOG.info("a")
            return x + 1, list(SEEN)

        assert breaks_of(fn, SEEN.clear) == {"FL0110"}

    def test_a_variable_of_the_module_it_is_written_in(self, heard_by):
        heard_by(Rebinds())

        def fn(x):
            LOG.info("a")
            return x + 1, COUNT

        assert breaks_of(fn, lambda: globals().update(COUNT=0)) == {"FL0110"}

    def test_a_variable_of_the_function_it_is_written_in(self, heard_by):
        count = 0

        class Counts(logging.Handler):
            def emit(self, record):
                nonlocal count
                count += 1

        heard_by(Counts())

        def fn(x):
            LOG.info("a")
            return x + 1, count

        def fresh():
            nonlocal count
            count = 0

        assert breaks_of(fn, fresh) == {"FL0110"}

    def test_a_dictionary_it_closes_over(self, heard_by):
        last = {}

        class Remembers(logging.Handler):
            def emit(self, record):
                last["args"] = len(record.args)

        heard_by(Remembers())

        def fn(x):
            LOG.info("a %s %s", 1, 2)
            return x + 1, last.get("args")

        assert breaks_of(fn, last.clear) == {"FL0110"}


class TestWhatAHandlerReads:
    def test_an_attribute_the_program_changes_afterwards(self, heard_by):
        handler, trainer = heard_by(Keeps()), Trainer()
        steps = Steps(trainer)
        LOG.addFilter(steps)

        def fresh():
            trainer.step = 0
            handler.messages.clear()

        def fn(x):
            trainer.step += 1
            LOG.info("a")
            trainer.step += 1
            return x + 1, trainer.step

        try:
            assert breaks_of(fn, fresh) == {"FL0110"}
            fresh()
            framelift.compile(fn, backend="eager")(torch.ones(2))
            assert handler.messages == ["a at 1"]
        finally:
            LOG.removeFilter(steps)


class TestWhatIsNoBusinessOfTheirs:
    def test_a_record_is_no_break(self, heard_by):
        handler = heard_by(Keeps())
        mine = []

        def fn(x):
            mine.append(1)
            LOG.info("a")
            mine.append(2)
            print("b")
            LOG.info("c")
            return x + len(mine)

        framelift.compile(fn, backend="eager", fullgraph=True)(torch.ones(2))
        assert handler.messages == ["a", "c"]

    def test_a_handler_that_comes_later_is_looked_at(self, heard_by):
        first, later = heard_by(Keeps()), Keeps()

        def fn(x):
            before = len(later.messages)
            LOG.info("a")
            return x + 1, before, len(later.messages)

        lifted = framelift.compile(fn, backend="eager")
        assert lifted(torch.ones(2))[1:] == (0, 0)
        heard_by(later)
        assert lifted(torch.ones(2))[1:] == (0, 1)
        assert first.messages == ["a", "a"]


class TestWarnings:
    def test_a_list_in_which_they_are_recorded(self):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")

            def fn(x):
                before = len(caught)
                warnings.warn("a", stacklevel=1)
                return x + 1, before, len(caught)

            assert breaks_of(fn, caught.clear) == {"FL0110"}

    def test_another_list_in_each_call(self):
        def fn(x, mine):
            warnings.warn("a", stacklevel=1)
            return x + len(mine)

        lifted, x = framelift.compile(fn, backend="eager"), torch.zeros(2)
        for _ in range(3):
            with warnings.catch_warnings(record=True) as caught, Record().listening() as record:
                warnings.simplefilter("always")
                assert lifted(x, [1, 2])[0] == 2
                assert len(caught) == 1
        assert not record.captures and not record.breaks
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            caught += [None, None]
            assert lifted(x, caught)[0] == 3

    def test_a_function_that_shows_them(self, monkeypatch):
        shown = []

        def show(message, category, filename, lineno, file=None, line=None):
            shown.append(str(message))

        with warnings.catch_warnings():
            warnings.simplefilter("always")
            monkeypatch.setattr(warnings, "showwarning", show)

            def fn(x):
                warnings.warn("a", stacklevel=1)
                return x + 1, list(shown)

            assert breaks_of(fn, shown.clear) == {"FL0110"}


def test_what_a_handler_holds_is_looked_at_and_never_asked():
    asked = []

    class Meta(type):
        def __hash__(cls):
            asked.append("hash")
            return 1

        def __eq__(cls, other):
            asked.append("==")
            return cls is other

    class Held(metaclass=Meta):
        @property
        def __class__(self):
            asked.append("class")
            return int

    def f(x):
        LOG.warning("heard")
        return x + 1

    handler = Keeps()
    handler.held = [Held(), Held]
    LOG.addHandler(handler)
    try:
        lifted = framelift.compile(f, backend="eager", fullgraph=True)
        assert lifted(torch.ones(2)).tolist() == [2, 2]
    finally:
        LOG.removeHandler(handler)
    assert handler.messages == ["heard"]
    assert not asked
