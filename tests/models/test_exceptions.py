"""Exception groups and `except*`, lifted and by Python."""

from __future__ import annotations

import contextlib

import framelift
from tests.values.programs import Programs

programs = Programs()


class Special(ValueError):
    def __init__(self, code):
        super().__init__(f"code {code}")
        self.code = code


class Labelled(ExceptionGroup):
    def __new__(cls, message, exceptions, label):
        made = super().__new__(cls, message, exceptions)
        made.label = label
        return made

    def derive(self, exceptions):
        return Labelled(self.message, exceptions, self.label + "'")


def halt(value):
    framelift.graph_break()
    return value


def leaves(group):
    return [repr(error) for error in group.exceptions]


@programs
def each_clause_takes_its_part(x):
    log = []
    try:
        x = x + 1
        raise ExceptionGroup("g", [ValueError(1), TypeError("t"), Special(2)])
    except* ValueError as group:
        log.append((str(group), leaves(group)))
        x = x * 2
    except* (TypeError, KeyError) as group:
        log.append((group.message, leaves(group)))
    else:
        log.append("else")
    finally:
        log.append("finally")
    return x, log


@programs
def no_exception_at_all(x):
    log = []
    try:
        x = x + 1
    except* ValueError:
        log.append("never")
    else:
        log.append("else")
    return x, log


@programs
def a_single_exception_is_wrapped(x):
    log = []
    try:
        raise Special(3)
    except* ValueError as group:
        log.append((type(group).__name__, repr(group), group.exceptions[0].code, str(group)))
    return x + 1, log


@programs
def a_single_exception_passes_by(x):
    log = []
    try:
        try:
            raise KeyError("k")
        except* ValueError:
            log.append("never")
    except KeyError as error:
        log.append(error.args)
    return x + 1, log


@programs
def what_is_left_is_raised(x):
    log = []
    try:
        try:
            raise ExceptionGroup("g", [ValueError(1), ExceptionGroup("h", [KeyError(1), OSError(3)])])
        except* KeyError as group:
            log.append((repr(group), repr(group.exceptions)))
    except ExceptionGroup as group:
        log.append((repr(group), repr(group.exceptions), group.__context__))
    return x + 1, log


@programs
def a_clause_raises(x):
    log = []
    try:
        try:
            raise ExceptionGroup("g", [ValueError(1), TypeError(2), KeyError(3)])
        except* ValueError:
            raise RuntimeError("new") from None
        except* TypeError as group:
            raise ZeroDivisionError from group
    except ExceptionGroup as group:
        log.append((repr(group), repr(group.exceptions[-1]), repr(group.exceptions[1].__cause__)))
        log.append(group.exceptions[0].__suppress_context__)
    return x + 1, log


@programs
def a_clause_raises_all_there_is(x):
    try:
        try:
            raise ExceptionGroup("g", [ValueError(1)])
        except* ValueError:
            raise RuntimeError("new")
    except RuntimeError as error:
        return x + 1, repr(error.__context__)
    except ExceptionGroup as group:
        return x + 2, repr(group)


@programs
def a_clause_raises_its_part_again(x):
    try:
        try:
            raise ExceptionGroup("g", [ExceptionGroup("h", [ValueError(1), TypeError(2)]), KeyError(3)])
        except* ValueError:
            raise
        except* KeyError:
            pass
    except ExceptionGroup as group:
        return x + 1, repr(group)


@programs
def crosses_calls(x):
    def inner(x):
        x = x + 1
        raise ExceptionGroup("g", [Special(2), KeyError(1)])

    def outer(x):
        try:
            return inner(x)
        except* KeyError:
            x = x * 3
        return x

    try:
        return outer(x)
    except* ValueError as group:
        x = x + group.exceptions[0].code
    return x


@programs
def wrong_clauses(x):
    log = []
    for expected in (int, ExceptionGroup, (ValueError, BaseExceptionGroup)):
        try:
            try:
                raise ValueError(1)
            except* expected:
                log.append("never")
        except TypeError as error:
            log.append((str(error), repr(error.__context__)))
    return x + 1, log


@programs
def methods(x):
    group = ExceptionGroup("g", [ValueError(1), ExceptionGroup("h", [KeyError(1), OSError(3)])])
    group.add_note("a note")
    match, rest = group.split(KeyError)
    everything = group.split(Exception)
    nothing = group.split(ZeroDivisionError)
    by_function = group.subgroup(lambda error: isinstance(error, (OSError, ValueError)))
    return (
        x + 1,
        repr(match),
        match.__notes__,
        repr(rest),
        everything[0] is group,
        everything[1],
        nothing[0],
        repr(nothing[1]),
        repr(by_function),
        repr(group.derive([TypeError()])),
        group.subgroup((KeyError,)).exceptions[0].exceptions[0] is group.exceptions[1].exceptions[0],
    )


@programs
def groups_with_a_class_of_their_own(x):
    group = Labelled("g", [ValueError(1), KeyError(2)], "l")
    log = []
    try:
        try:
            raise group
        except* KeyError as part:
            log.append((type(part) is Labelled, part.label, part.message))
    except Labelled as rest:
        log.append((rest.label, leaves(rest), rest is group))
    return x + 1, log


@programs
def which_class_a_group_is(x):
    log = [type(BaseExceptionGroup("g", [ValueError()])).__name__]
    log.append(type(BaseExceptionGroup("g", [KeyboardInterrupt()])).__name__)
    for exceptions in ([], [1], [KeyboardInterrupt()]):
        try:
            ExceptionGroup("g", exceptions)
        except (ValueError, TypeError) as error:
            log.append((type(error).__name__, str(error)))
    return x + 1, log


@programs(expect_breaks=None, expect_ops=0)
def a_group_leaves_the_frame(x):
    y = x + 1
    raise ExceptionGroup("g", [ValueError(1), KeyError(y.shape)])


@programs
def a_group_is_returned(x):
    made = Labelled("g", [ValueError(1)], "l")
    return x + 1, ExceptionGroup("g", [ValueError(1), ExceptionGroup("h", [KeyError(2)])]), made.args, made.label, made


@programs(expect_breaks=None, expect_ops=0)
def is_split_by_no_condition(x):
    try:
        ExceptionGroup("g", [ValueError(1)]).split(3)
    except TypeError as error:
        return x + 1, str(error)


@programs(expect_breaks=None)
def breaks_in_a_loop_with_two_clauses(x):
    seen = []
    for number in range(3):
        try:
            if halt(number) > 0:
                raise ExceptionGroup("g", [ValueError(number), IndexError(1)])
        except* ValueError as group:
            seen.append(len(group.exceptions))
        except* LookupError:
            seen.append("lookup")
    return x + 1, seen


@programs(expect_breaks=None, expect_ops=0)
def what_a_clause_raises_passes_an_outer_handler(x):
    log = []
    with contextlib.suppress(KeyError):
        try:
            raise ExceptionGroup("g", [ValueError(1), IndexError(2)])
        except* ValueError:
            raise Special(halt(3))
        except* LookupError:
            log.append("lookup")
        finally:
            log.append("finally")
    return x + 1, log


@programs(expect_breaks=None)
def what_a_clause_raises_after_a_break_is_handled(x):
    log = []
    for number in range(3):
        try:
            try:
                raise ExceptionGroup("g", [ValueError(number), KeyError(2), OSError(3)])
            except* ValueError:
                if halt(number):
                    raise Special(number)
            except* LookupError:
                log.append("lookup")
        except Special as error:
            log.append((error.code, repr(error.__context__)))
        except ExceptionGroup as group:
            log.append((repr(group), repr(group.__context__)))
    return x + 1, log


test_programs = programs.test()
