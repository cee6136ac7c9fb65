"""Generators: consumed in the frame, driven by hand, delegating, dropped, and escaping."""

from __future__ import annotations

from tests.helpers.untraced import print
from tests.values.programs import Programs, x

programs = Programs()


def count(n):
    for i in range(n):
        yield i


def scaled(x, n):
    for i in range(n):
        yield x * i
    return n


def logging(log, n):
    try:
        for i in range(n):
            log.append(i)
            yield i
    finally:
        log.append("end")


@programs
def names(x):
    def walk(n):
        yield n

    def other():
        yield 1

    other.__name__ = "renamed"
    made = [walk(1), other(), (n for n in range(2))]
    return x + 1, [(generator.__name__, generator.__qualname__) for generator in made]


@programs
def for_loop(x):
    for i in count(3):
        x = x + i
    return x


@programs
def comprehension(x):
    return [y + 1 for y in scaled(x, 3)], sum(count(4)), list(count(2)), tuple(count(2))


@programs
def expression(x):
    return sum(x * i for i in range(3)), list(i * j for i in range(3) for j in range(i)), max(i for i in (3, 1))


@programs
def conditional_expression(x):
    return sum(x + i for i in range(6) if i % 2)


@programs
def any_and_all(x):
    return x + 1, any(i > 2 for i in count(5)), all(i > 2 for i in count(5))


@programs
def star_arguments(x):
    return max(*count(4)), [*count(3)], {*count(2)}, x + 1


@programs
def unpacking(x):
    a, b, c = scaled(x, 3)
    return a + b + c


@programs
def zipped(x):
    return [a + b for a, b in zip(scaled(x, 3), count(2))]


@programs
def by_hand(x):
    g = count(2)
    first, second = next(g), next(g)
    return x + first + second, next(g, "none")


@programs
def exhausted_stays_exhausted(x):
    g = count(1)
    list(g)
    try:
        next(g)
    except StopIteration as error:
        return x + 1, list(g), error.value


@programs
def return_value(x):
    g = scaled(x, 1)
    next(g)
    try:
        next(g)
    except StopIteration as stop:
        return x + stop.value


@programs
def sending(x):
    def accumulate():
        total = 0
        while True:
            got = yield total
            if got is None:
                return "done"
            total = total + got

    g = accumulate()
    next(g)
    g.send(1)
    second = g.send(x)
    try:
        g.send(None)
    except StopIteration as stop:
        return second, stop.value


@programs
def send_before_start(x):
    g = count(1)
    try:
        g.send(1)
    except TypeError as error:
        return x + 1, str(error), next(g)


@programs
def yield_from(x):
    def outer():
        n = yield from scaled(x, 2)
        yield x + n
        yield from [1, 2]

    return list(outer())


@programs
def yield_from_sends(x):
    def inner():
        got = yield 1
        return got * 2

    def outer():
        result = yield from inner()
        yield result

    g = outer()
    next(g)
    return x + g.send(5)


@programs
def raising_inside(x):
    def bad():
        yield 1
        raise ValueError("bad")

    seen = []
    try:
        for i in bad():
            seen.append(i)
    except ValueError as error:
        return x + 1, seen, str(error)


@programs
def stop_iteration_inside(x):
    def bad():
        yield 1
        raise StopIteration("x")

    try:
        list(bad())
    except RuntimeError as error:
        return x + 1, str(error), repr(error.__cause__)


@programs
def throwing(x):
    def catches():
        try:
            yield 1
        except KeyError as error:
            yield error.args
        yield 3

    g = catches()
    return x + next(g), g.throw(KeyError("k")), next(g)


@programs
def throwing_a_class(x):
    def catches():
        try:
            yield 1
        except KeyError:
            yield 2

    g = catches()
    next(g)
    return x + g.throw(KeyError)


@programs
def throwing_through(x):
    g = count(3)
    next(g)
    try:
        g.throw(KeyError("k"))
    except KeyError as error:
        return x + 1, error.args, list(g)


@programs
def throwing_into_fresh(x):
    g = count(3)
    try:
        g.throw(KeyError("k"))
    except KeyError:
        return x + 1, list(g)


@programs
def closing(x):
    log = []
    g = logging(log, 3)
    next(g)
    g.close()
    g.close()
    return x + 1, log, list(g)


@programs
def closing_fresh(x):
    log = []
    g = logging(log, 3)
    g.close()
    return x + 1, log


@programs
def closing_ignored(x):
    def stubborn():
        while True:
            try:
                yield 1
            except GeneratorExit:
                pass

    g = stubborn()
    next(g)
    try:
        g.close()
    except RuntimeError as error:
        text = str(error)
    return x + 1, text


closing_ignored_case = programs.cases.pop()  # its generator is never finished: see below


@programs(expect_breaks=None, expect_ops=1)  # every use of the real generator is one
def never_finished(x):
    y = x + 1
    return closing_ignored_case[0](y)


@programs
def handled_exception_stays_inside(x):
    def handles():
        try:
            raise KeyError("inner")
        except KeyError:
            yield 1

    g = handles()
    next(g)
    try:
        raise ValueError("v")
    except ValueError as error:
        result = repr(error.__context__)
    return x + 1, result, list(g)


@programs
def contexts_of_what_is_thrown(x):
    def waits():
        try:
            yield
        except ValueError as error:
            yield error

    def handles():
        try:
            raise IndexError("own")
        except IndexError:
            try:
                yield
            except ValueError as error:
                yield error

    found = []
    try:
        raise KeyError("outer")
    except KeyError:
        for make in (waits, handles):
            g = make()
            next(g)
            found.append(g.throw(ValueError("thrown")))
            list(g)
        for g in (waits(), iter(g)):
            try:
                g.throw(ValueError("at one that does not wait"))
            except ValueError as error:
                found.append(error)
    return x + 1, [repr(error.__context__) for error in found]


@programs
def running_already(x):
    def me():
        yield next(g)

    g = me()
    try:
        next(g)
    except ValueError as error:
        return x + 1, str(error)


@programs
def dropped_unfinished(x):
    for i in count(10):
        if i == 2:
            break
    return x + i


@programs(expect_breaks=None, expect_ops=1)  # every use of the real generator is one
def dropped_in_try(x):
    y = x + 1
    log = []
    for i in logging(log, 10):
        if i == 2:
            break
    return y + i, log


@programs
def finished_with_try(x):
    log = []
    for i in logging(log, 2):
        x = x + i
    return x, log


@programs
def infinite(x):
    def naturals():
        n = 0
        while True:
            yield n
            n += 1

    for n in naturals():
        if n > 3:
            return x + n


@programs
def closure_over_loop(x):
    total = 0

    def adds():
        nonlocal total
        for i in range(3):
            total += i
            yield total

    return x + sum(adds()), total


@programs(expect_breaks=2, expect_ops=1)
def escapes(x):
    y = x + 1
    return list(escape(scaled(y, 2)))


def escape(g):
    print("a break")
    return g


@programs(expect_breaks=None, expect_ops=0, deterministic=False)
def break_in_loop_over_generator(x):
    y = x + 1
    for i in count(3):
        print(i)
        y = y + i
    return y


@programs(expect_breaks=None, expect_ops=1)  # every use of the real generator is one
def break_inside_generator(x):
    def prints():
        yield 1
        print("inside")
        yield 2

    y = x + 1
    return y + sum(prints())


@programs(expect_breaks=None, expect_ops=1)
def mutation_before_break_inside_generator(x):
    log = []

    def prints():
        log.append(1)
        yield 1
        log.append(2)
        print(log)
        yield 2

    y = x + 1
    return y + sum(prints()), log


@programs(expect_breaks=None, expect_ops=1)
def break_with_half_used_generator(x):
    y = x + 1
    g = count(5)
    first = next(g)
    print("now")
    return y + first + sum(g)


def test_a_generator_is_returned():
    import framelift

    def fn(x):
        y = x + 1
        return scaled(y, 3)

    for _ in range(2):
        made = framelift.compile(fn, backend="eager")(x())
        assert [t.tolist() for t in made] == [t.tolist() for t in fn(x())]


@programs
def left_in_a_try_without_effects(x):
    def numbers():
        position = 0
        try:
            while True:
                yield (1, 2, 3)[position]
                position += 1
        except IndexError:
            return

    for number in numbers():
        if number == 2:
            break
    return x + number


# -- throw() and close() while a generator delegates ------------------------------------------------------------------


def below(log):
    try:
        while True:
            try:
                log.append((yield 1))
            except ValueError as error:
                log.append(str(error))
                yield "handled"
            except KeyError:
                return "returned"
    finally:
        log.append("below is over")


def above(log):
    try:
        log.append((yield from below(log)))
        yield "behind"
    except IndexError:
        yield "caught"
    finally:
        log.append("above is over")


def further_above(log):
    return (yield from above(log))


@programs(args=(x(), []))
def thrown_to_the_one_below(x, log):
    g = further_above(log)
    return x + 1, [next(g), g.send(5), g.throw(ValueError("v")), next(g), g.throw(KeyError), next(g, "over")]


@programs(args=(x(), []))
def thrown_through_the_one_below(x, log):
    g = further_above(log)
    return x + 1, [next(g), g.throw(IndexError("i")), next(g, "over")]


@programs(args=(x(), []))
def thrown_through_all(x, log):
    g = further_above(log)
    next(g)
    try:
        g.throw(ZeroDivisionError)
    except ZeroDivisionError:
        log.append("out")
    return x + 1, next(g, "over")


@programs(args=(x(), []))
def closed_while_it_delegates(x, log):
    g = further_above(log)
    next(g)
    g.close()
    return x + 1, next(g, "over")


@programs(args=(x(), []))
def thrown_beside_a_list(x, log):
    def items():
        try:
            log.append((yield from [1, 2]))
        except ValueError as error:
            log.append(repr(error))
        yield 3

    g = items()
    return x + 1, [next(g), g.throw(ValueError("v")), next(g, "over")]


@programs(args=(x(), []))
def the_end_of_a_list_thrown(x, log):
    """From 3.12 on StopIteration that is thrown is the end of what is delegated to."""

    def items():
        log.append((yield from [1, 2]))
        yield 3

    g = items()
    next(g)
    try:
        return x + 1, g.throw(StopIteration(7))
    except RuntimeError as error:
        return x + 1, str(error)


@programs(args=(x(), []))
def thrown_while_an_exception_is_handled(x, log):
    def handling():
        try:
            raise KeyError("k")
        except KeyError:
            yield from below(log)

    g = handling()
    next(g)
    try:
        g.throw(IndexError)
    except IndexError as error:
        log.append(repr(error.__context__))
    return x + 1


@programs(args=(x(), []))
def one_that_will_not_close(x, log):
    def stubborn():
        try:
            yield 1
        except GeneratorExit:
            yield 2

    def items():
        yield from stubborn()

    g = items()
    next(g)
    try:
        g.close()
    except RuntimeError as error:
        log.append(str(error))
    return x + 1, next(g, "over")


test_programs = programs.test()
