"""Exceptions: raised, caught, chained, by the program and by what it does; escaping; breaks around them."""

from __future__ import annotations

import sys

import pytest
import torch

import framelift
from tests.helpers import check
from tests.helpers.untraced import print
from tests.values import asserting
from tests.values.programs import Programs, x

programs = Programs()


class Oops(Exception):
    pass


class WithInit(Exception):
    def __init__(self, code, text="t"):
        super().__init__(f"{code}: {text}")
        self.code = code


class WithStr(ValueError):
    def __str__(self):
        return f"<{self.args}>"


class Sub(Oops):
    level = 3


@programs
def raise_and_catch(x):
    try:
        raise ValueError("a")
    except ValueError as error:
        return x + 1, str(error), error.args


@programs
def catch_by_base(x):
    try:
        raise Sub(1, 2)
    except Oops as error:
        return x + error.level, error.args, str(error), repr(error)


@programs
def catch_by_tuple(x):
    try:
        raise KeyError("k")
    except (IndexError, KeyError) as error:
        return x + 1, str(error), repr(error)


@programs
def wrong_handler_first(x):
    try:
        raise KeyError("k")
    except IndexError:
        return x - 1
    except LookupError:
        return x + 1


@programs
def bare_except(x):
    try:
        raise Oops
    except:  # noqa: E722
        return x + 1


@programs
def else_and_finally(x):
    log = []
    try:
        log.append("try")
    except ValueError:
        log.append("except")
    else:
        log.append("else")
    finally:
        log.append("finally")
    return x + len(log), log


@programs
def finally_after_raise(x):
    log = []
    try:
        try:
            raise ValueError
        finally:
            log.append("finally")
    except ValueError:
        log.append("except")
    return x + 1, log


@programs
def finally_with_return(x):
    def inner():
        try:
            raise ValueError
        finally:
            return 3  # noqa: B012

    return x + inner()


@programs
def return_in_try_and_finally(x):
    log = []

    def inner():
        try:
            return 1
        finally:
            log.append(2)

    return x + inner(), log


@programs
def return_overridden(x):
    try:
        return x
    finally:
        return x + 1  # noqa: B012


@programs
def break_in_try(x):
    log = []
    for i in range(5):
        try:
            if i == 1:
                continue
            if i == 3:
                break
            x = x + i
        finally:
            log.append(i)
    return x, log


@programs
def raise_from(x):
    try:
        try:
            raise KeyError("inner")
        except KeyError as inner:
            raise Oops("outer") from inner
    except Oops as error:
        return x + 1, repr(error.__cause__), error.__cause__ is error.__context__, error.__suppress_context__


@programs
def raise_from_none(x):
    try:
        try:
            raise KeyError("inner")
        except KeyError:
            raise Oops("outer") from None
    except Oops as error:
        return x + 1, error.__cause__, error.__suppress_context__, repr(error.__context__)


@programs
def implicit_context(x):
    try:
        try:
            {}["k"]
        except KeyError:
            [][1]  # noqa: PLE0643
    except IndexError as error:
        return x + 1, repr(error.__context__), error.__context__.__context__


@programs
def reraise(x):
    log = []
    try:
        try:
            raise Oops(1)
        except Oops:
            log.append("inner")
            raise
    except Oops as error:
        log.append(error.args)
    return x + 1, log


@programs
def reraise_by_name(x):
    try:
        try:
            raise Oops(1)
        except Oops as error:
            raise error
    except Oops as error:
        return x + 1, error.args, error.__context__


@programs
def bare_raise_without_exception(x):
    try:
        raise  # noqa: PLE0704
    except RuntimeError as error:
        return x + 1, str(error)


@programs
def raise_inside_called_function_of_handler(x):
    def again():
        raise  # noqa: PLE0704

    try:
        try:
            raise Oops("o")
        except Oops:
            again()
    except Oops as error:
        return x + 1, str(error)


@programs
def exception_name_is_deleted(x):
    error = 1
    try:
        raise Oops
    except Oops as error:
        pass
    try:
        return error
    except UnboundLocalError:
        return x + 1


@programs
def raise_class_and_instance(x):
    found = []
    for what in (Oops, Oops("i"), ValueError, KeyError(3)):
        try:
            raise what
        except Exception as error:
            found.append((type(error).__name__, error.args, error is what))
    return x + 1, found


@programs
def raise_something_else(x):
    try:
        raise 3
    except TypeError as error:
        return x + 1, str(error)


@programs
def catch_something_else(x):
    try:
        try:
            raise Oops
        except 3:
            pass
    except TypeError as error:
        return x + 1, str(error)


@programs
def nested_handlers(x):
    log = []
    for i in range(4):
        try:
            try:
                if i == 0:
                    raise KeyError(i)
                if i == 1:
                    raise ValueError(i)
                if i == 2:
                    raise Oops(i)
                log.append("none")
            except KeyError:
                log.append("key")
            else:
                log.append("else")
        except ValueError:
            log.append("value")
        except Oops as error:
            log.append(error.args[0])
        finally:
            log.append("finally")
    return x + len(log), log


@programs
def exception_through_functions(x):
    def raises(n):
        if n == 0:
            raise Oops("deep")
        return raises(n - 1)

    def cleans(log):
        try:
            return raises(3)
        finally:
            log.append("cleaned")

    log = []
    try:
        cleans(log)
    except Oops as error:
        return x + 1, log, str(error)


# -- custom classes --------------------------------------------------------------------------------------------------


@programs
def exception_with_init(x):
    try:
        raise WithInit(7)
    except WithInit as error:
        return x + error.code, str(error), error.args, dict(error.__dict__)


@programs
def exception_with_keyword(x):
    try:
        raise WithInit(7, text="u")
    except Exception as error:
        return x + 1, str(error), f"{error}", f"{error!r}"


@programs
def exception_with_str(x):
    try:
        raise WithStr(1, 2)
    except ValueError as error:
        return x + 1, str(error)


@programs
def attribute_on_exception(x):
    error = Oops("a")
    error.extra = x + 1
    try:
        raise error
    except Oops as caught:
        return caught.extra * 2, caught is error


@programs
def tensor_in_exception(x):
    try:
        raise Oops(x + 1)
    except Oops as error:
        return error.args[0] * 2


@programs
def exception_returned(x):
    return ValueError("a", 1), Oops(), x + 1


@programs
def exception_with_attribute_returned(x):
    error = Oops("a")
    error.tag = [x + 1]
    return error


@programs(expect_breaks=None, expect_ops=0)
def caught_exception_is_kept(x):
    try:
        raise Oops("a")
    except Oops as error:
        kept = error
    return kept, x + 1


@programs
def exception_with_init_returned(x):
    return WithInit(3), x + 1


@programs(expect_breaks=None, expect_ops=0)
def caught_exception_returned(x):
    try:
        raise Oops("a")
    except Oops as error:
        return error.args, x + 1, error.__traceback__ is None


# -- raised by what the program does ---------------------------------------------------------------------------------


@programs
def key_error(x):
    try:
        {"a": 1}["b"]
    except KeyError as error:
        return x + 1, error.args, str(error)


@programs
def index_error(x):
    try:
        [1, 2][5]  # noqa: PLE0643
    except IndexError as error:
        return x + 1, str(error)


@programs
def type_error(x):
    try:
        1 + "a"
    except TypeError as error:
        return x + 1, str(error)


@programs
def zero_division(x):
    try:
        1 // 0
    except ZeroDivisionError as error:
        return x + 1, str(error)


@programs
def value_error_of_int(x):
    try:
        int("q")
    except ValueError as error:
        return x + 1, str(error)


@programs
def attribute_error(x):
    try:
        (1).nothing
    except AttributeError as error:
        return x + 1, str(error)


@programs
def stop_iteration(x):
    it = iter([1])
    next(it)
    try:
        next(it)
    except StopIteration as error:
        return x + 1, error.value


@programs
def unpack_error(x):
    try:
        a, b = [1, 2, 3]
    except ValueError as error:
        return x + 1, str(error)


@programs
def not_callable(x):
    try:
        (3)()
    except TypeError as error:
        return x + 1, str(error)


@programs(expect_breaks=1, expect_ops=0)
def import_error(x):
    try:
        from math import no_such_thing  # noqa: F401
    except ImportError:
        return x + 1


programs(asserting.fails_and_is_caught)
programs(asserting.holds)
programs(asserting.fails, expect_breaks=1, expect_ops=0)


# -- escaping --------------------------------------------------------------------------------------------------------


@programs(expect_breaks=1, expect_ops=0)
def escapes(x):
    y = x + 1
    raise Oops("out", y.dim())


@programs(expect_breaks=2, expect_ops=1)
def escapes_from_inlined(x):
    def inner(y):
        if y.dim() == 2:
            raise Oops("inner")
        return y

    y = x + 1
    return inner(y)


@programs(expect_breaks=2, expect_ops=0)
def escapes_with_cause(x):
    y = x + 1
    try:
        {}["k"]
    except KeyError as error:
        raise Oops(y.dim()) from error


@programs(expect_breaks=1, expect_ops=0)
def escapes_after_change(x):
    seen = [x + 1]
    seen.append(1)
    return {}[seen[1]]


@programs(args=(x(), [1]), expect_breaks=1, expect_ops=1)
def escapes_after_changing_input(x, items):
    y = x + 1
    items.append(y)
    return items[99]


@programs(expect_breaks=1, expect_ops=0)
def type_error_escapes(x):
    y = x + 1
    return y.dim() + "a"


@programs(expect_breaks=2, expect_ops=1)
def finally_runs_when_escaping(x):
    y = x + 1
    try:
        raise Oops
    finally:
        print("finally", y.dim())


def test_the_traceback_names_the_users_line():
    def inner(y):
        raise Oops("here")

    def fn(x):
        y = x + 1
        return inner(y)

    with pytest.raises(Oops) as caught:
        framelift.compile(fn, backend="eager")(x())
    names = [entry.name for entry in caught.traceback]
    assert names[-1] == "inner" and "fn" in names


# -- breaks while an exception is handled ----------------------------------------------------------------------------


@programs(expect_breaks=2, expect_ops=1)
def break_in_handler(x):
    y = x + 1
    try:
        raise Oops("a")
    except Oops as error:
        print("handling", error)
        y = y * 2
    return y


@programs(expect_breaks=1, expect_ops=1)
def break_in_finally(x):
    y = x + 1
    try:
        y = y * 2
    finally:
        print("finally")
    return y + 1


@programs(expect_breaks=1, expect_ops=1)
def break_in_try_body(x):
    y = x + 1
    try:
        print("try")
        {}["k"]
    except KeyError:
        y = y * 2
    return y + 1


@programs(expect_breaks=2, expect_ops=1)
def break_in_handler_of_inlined(x):
    def inner(y):
        try:
            raise Oops
        except Oops:
            print("inner")
            return y * 2

    y = x + 1
    return inner(y)


@programs(expect_breaks=None, expect_ops=1)
def break_in_handler_within_loop(x):
    y = x + 1
    for i in range(3):
        try:
            if i == 1:
                raise Oops(i)
            y = y + i
        except Oops:
            print("loop", i)
    return y


@programs(expect_breaks=None, expect_ops=1)
def break_in_nested_handler(x):
    y = x + 1
    try:
        raise Oops("outer")
    except Oops:
        try:
            raise KeyError("inner")
        except KeyError as error:
            print(repr(error.__context__))
            y = y + 1
    return y


@programs(expect_breaks=2, expect_ops=1)
def effects_before_break_in_handler(x):
    items = []
    y = x + 1
    try:
        items.append(1)
        raise Oops
    except Oops:
        items.append(2)
        print(items)
    return y, items


@programs(expect_breaks=None, expect_ops=1)
def break_after_handled_exception(x):
    try:
        raise Oops
    except Oops:
        y = x + 1
    print("after")
    return y * 2


@programs(expect_breaks=None, expect_ops=1)
def traceback_is_read(x):
    y = x + 1
    try:
        raise Oops
    except Oops as error:
        return y, error.__traceback__.tb_lineno


@programs(expect_breaks=None, expect_ops=0)
def exc_info(x):
    import sys

    y = x + 1
    try:
        raise Oops("s")
    except Oops:
        return y, sys.exc_info()[0]


def test_an_error_of_an_operation_is_raised_by_python():
    def fn(x):
        y = x + 1
        return y @ torch.ones(7, 7)

    check(fn, x(), expect_breaks=None)


def test_an_error_of_an_operation_is_caught():
    def fn(x):
        y = x + 1
        try:
            return y @ torch.ones(7, 7)
        except RuntimeError:
            return y * 2

    check(fn, x(), expect_breaks=None)


@programs
def histories_that_are_none(x):
    error, other, words = ValueError("a"), KeyError("b"), []
    error.__cause__ = other
    words.append((error.__suppress_context__, error.__cause__ is other))
    for name in ("__cause__", "__context__", "__traceback__"):
        try:
            setattr(error, name, 3)
        except TypeError as wrong:
            words.append(str(wrong))
    error.__cause__ = None
    error.args = [3, 4]
    return x + 1, words, error.args, str(error), error.__cause__


@programs
def leaving_python(x):
    found = []
    for status in ((), (None,), (3,), ("bye",), ((1, 2),)):
        try:
            sys.exit(*status)
        except SystemExit as error:
            found.append((error.code, error.args, str(error)))
    return x + 1, found


@programs
def what_was_looked_for_in_vain(x):
    class Plain:
        @property
        def inner(self):
            return self.deeper

        def __getattr__(self, name):
            raise AttributeError("none such")

    plain, items, found = Plain(), [], []
    for look, obj in ((lambda: plain.gone, plain), (lambda: plain.inner, plain), (lambda: items.gone, items)):
        try:
            look()
        except AttributeError as error:
            found.append((error.name, error.obj is obj, str(error)))
    for look in (lambda: x.gone, lambda: (1).gone, lambda: Plain.gone, lambda: getattr(plain, "got")):  # noqa: B009
        try:
            look()
        except AttributeError as error:
            found.append(error.name)
    try:
        undefined_name  # noqa: B018, F821
    except NameError as error:
        found.append((error.name, str(error)))
    return x + 1, found


test_programs = programs.test()


@pytest.mark.parametrize(
    "made",
    [
        lambda: OSError(2, "no", "here"),
        lambda: OSError("only a text"),
        lambda: FileNotFoundError(2, "no such", "file"),
        lambda: ImportError("text"),
        lambda: SyntaxError("bad", ("file", 3, 4, "text", 5, 6)),
        lambda: UnicodeDecodeError("utf-8", b"abc", 1, 2, "why"),
        lambda: UnicodeEncodeError("utf-8", "abc", 1, 2, "why"),
    ],
)
def test_attributes_made_of_arguments(made):
    def f(x):
        try:
            raise made()
        except Exception as error:
            names = ("errno", "strerror", "filename", "filename2", "name", "path", "msg", "lineno", "offset", "text")
            found = [getattr(error, name, "-") for name in (*names, "encoding", "object", "start", "end", "reason")]
            return x + 1, found, str(error), repr(error), error.args, type(error)

    check(f, torch.ones(2))
    assert str(framelift.compile(lambda x: (x + 1, made()), backend="eager", fullgraph=True)(torch.ones(1))[1]) == str(
        made()
    )


def test_constructors_that_refuse():
    def f(x):
        found = []
        for arguments in ((), ("utf-8",), ("utf-8", "text", 1, 2, "why")):
            try:
                UnicodeDecodeError(*arguments)
            except TypeError as error:
                found.append(str(error))
        return x + 1, found

    check(f, torch.ones(2))


def test_notes():
    class Own(ValueError):
        pass

    def function(x):
        error = Own("k")
        error.add_note("first")
        try:
            error.add_note("second")
            raise error
        except ValueError as caught:
            notes = list(caught.__notes__)
        try:
            caught_again = KeyError()
            caught_again.add_note(3)
        except TypeError as wrong:
            return x + len(notes), notes, str(wrong)

    check(function, torch.ones(2), fullgraph=True)


def test_an_attribute_that_is_missing_from_a_given_exception():
    def f(x, error):
        try:
            return x + error.characters_written
        except AttributeError as missing:
            return x - 1, str(missing)

    for error in (BlockingIOError("a"), BlockingIOError(1, "b", 3), BlockingIOError()):
        check(f, x(), error, expect_breaks=None)
