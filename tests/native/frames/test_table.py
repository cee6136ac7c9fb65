"""Tables: order of lookup, hints, dead entries, who owns whom."""

from __future__ import annotations

import gc
import time
import weakref
from types import FunctionType
from typing import Any

import pytest

from framelift.native import _core
from tests.native.entry_helpers import accept, lift, no_miss, nslots, private, references, tree


def equal_to(value: object) -> _core.GuardTree:
    return tree(1, (0, _core.CHECK_EQUALS, value))


def make_function() -> FunctionType:
    """A function whose code nobody else holds."""
    namespace: dict[str, Any] = {}
    exec("def f(x): return 'function', x", namespace)
    function = private(namespace["f"])
    namespace.clear()  # else the first function, in a cycle with it, holds the code until the next collection
    return function


# -- lookup


def test_entries_are_listed_most_recent_first() -> None:
    f = make_function()
    lifted = lift(f)
    for value in range(5):
        lifted.table.install(equal_to(value), lambda x: x, value)
    for value in (2, 0, 3):
        lifted(value)
    assert [entry.label for entry in lifted.table.entries] == [3, 0, 2, 4, 1]


@pytest.mark.parametrize("count", [1, 2, 3, 7, 64, 300])
def test_every_entry_is_found(count: int) -> None:
    lifted = lift(make_function())
    for value in range(count):
        namespace: dict[str, Any] = {}
        exec(f"def r(x): return {value}, x", namespace)
        lifted.table.install(equal_to(value), namespace["r"], value)
    for _ in range(3):
        for value in range(count):
            assert lifted(value) == (value, value)
    assert lifted(-1) == ("function", -1)
    assert (lifted.table.hits, lifted.table.misses) == (3 * count, 1)


def test_many_values_for_one_entry() -> None:
    """Hints are forgotten, entries are not."""
    lifted = lift(make_function())
    lifted.table.install(tree(1, (0, _core.CHECK_TYPE, int)), lambda x: x, "int")
    lifted.table.install(tree(1, (0, _core.CHECK_TYPE, str)), lambda x: x, "str")
    for value in range(5000):
        assert lifted(value) == value
        assert lifted(str(value)) == str(value)
    assert lifted.table.misses == 0


@pytest.mark.parametrize("make", [lambda i: (i, "s"), lambda i: [float(i)], lambda i: {"k": i}, lambda i: str(i)])
def test_lookup_among_arguments_of_other_types(make: Any) -> None:
    values = [make(i) for i in range(20)]

    def miss(lifted, slots):
        mutable = isinstance(slots[0], (list, dict))
        check = (0, _core.CHECK_TYPE, type(slots[0])) if mutable else (0, _core.CHECK_EQUALS, slots[0])
        return lifted.table.install(tree(1, check), lambda x: x, values.index(slots[0]))

    lifted = lift(make_function(), miss)
    for _ in range(3):
        for value in values:
            assert lifted(value) is value


def test_many_entries_cost_like_two() -> None:
    """Round-robin over 64 specialisations, against over 2. The bound is loose: machines are shared."""

    def nanoseconds(count: int) -> float:
        lifted = lift(make_function())
        for value in range(count):
            lifted.table.install(equal_to(value), lambda x: x, value)
        values = list(range(count)) * (128 // count)
        best = float("inf")
        for _ in range(60):
            start = time.perf_counter()
            for value in values:
                lifted(value)
            best = min(best, time.perf_counter() - start)
        return best / len(values) * 1e9

    assert nanoseconds(64) < 2 * nanoseconds(2)


# -- entries


def test_residual_must_be_flat() -> None:
    table = _core.Table("k")
    cell = 1
    for residual in (lambda *x: x, lambda x, *, y=1: x, lambda x, y: x, lambda x, **k: x, lambda x: cell):
        with pytest.raises(ValueError, match="must be a flat function"):
            table.install(tree(1), residual, None)

    def generator(x):
        yield x

    with pytest.raises(ValueError, match="must be a flat function"):
        table.install(tree(1), generator, None)
    with pytest.raises(TypeError):
        table.install("tree", lambda x: x, None)
    with pytest.raises(TypeError):
        table.install(tree(1), len, None)
    assert table.entries == []


def test_slots_must_be_the_codes() -> None:
    f = make_function()
    with pytest.raises(ValueError, match="read 2 slots"):
        _core.table_for(f.__code__, "k").install(tree(2), lambda x, y: x, None)


def test_remove_and_clear() -> None:
    lifted = lift(make_function())
    entries = [lifted.table.install(equal_to(i), lambda x: "residual", i) for i in range(4)]
    for _ in range(2):
        assert [lifted(i) for i in range(4)] == ["residual"] * 4
    lifted.table.remove(entries[1])
    lifted.table.remove(entries[3])
    assert [lifted(i) for i in range(4)] == ["residual", ("function", 1), "residual", ("function", 3)]
    with pytest.raises(ValueError, match="not in this table"):
        lifted.table.remove(entries[1])
    lifted.table.clear()
    assert lifted.table.entries == [] and (lifted.table.hits, lifted.table.misses) == (0, 0)
    assert lifted(0) == ("function", 0)


class Owner:
    pass


def test_dead_entry_is_dropped_on_the_next_miss() -> None:
    owner = Owner()
    lifted = lift(make_function())
    entry = lifted.table.install(tree(1, (0, _core.CHECK_IS, owner)), lambda x: "residual", "weak")
    assert lifted(owner) == "residual" and not entry.dead
    del owner
    gc.collect()
    assert entry.dead and lifted.table.entries == [entry]
    gone = weakref.ref(entry.residual)
    del entry
    assert lifted(1) == ("function", 1)
    assert lifted.table.entries == [] and gone() is None


def test_dead_entry_goes_even_if_another_takes_all_calls() -> None:
    owner = Owner()
    lifted = lift(make_function())
    lifted.table.install(tree(1, (0, _core.CHECK_IS, owner)), lambda x: "weak", "weak")
    lifted.table.install(tree(1, (0, _core.CHECK_TYPE, int)), lambda x: "int", "int")
    del owner
    for _ in range(1000):
        assert lifted(1) == "int"
    assert [entry.label for entry in lifted.table.entries] == ["int"]


# -- ownership


def test_tables_belong_to_code_and_key() -> None:
    f, g = make_function(), make_function()
    first = _core.table_for(f.__code__, ("options", 1))
    assert _core.table_for(f.__code__, ("options", 1)) is first
    assert _core.table_for(f.__code__, ("options", 2)) is not first
    assert _core.table_for(g.__code__, ("options", 1)) is not first
    assert set(_core.tables_of(f.__code__)) >= {first} and len(_core.tables_of(f.__code__)) == 2
    assert first.key == ("options", 1) and first.code is f.__code__
    assert first in _core.all_tables()
    assert _core.tables_of(make_function().__code__) == []
    for wrong in (f, None):
        with pytest.raises(TypeError):
            _core.table_for(wrong, "k")
        with pytest.raises(TypeError):
            _core.tables_of(wrong)
    with pytest.raises(TypeError, match="unhashable"):
        _core.table_for(f.__code__, [])


def test_closures_of_one_code_share_its_table() -> None:
    def outer(y):
        def f(x):
            return x, y

        return f

    accept(outer(1), lambda x: "residual")
    assert lift(outer(2))(1) == "residual"


def test_a_failing_comparison_of_keys_is_raised() -> None:
    class Key:
        def __hash__(self):
            return 1

        def __eq__(self, other):
            raise KeyError("compare")

    f = make_function()
    _core.table_for(f.__code__, Key())
    with pytest.raises(KeyError, match="compare"):
        _core.table_for(f.__code__, Key())


def test_table_dies_with_its_code() -> None:
    f = make_function()
    residual = private(make_function())
    entry = accept(f, residual)
    entry.label = Owner()
    gone = [weakref.ref(item) for item in (_core.table_for(f.__code__, "test"), residual, entry.label)]
    lifted = lift(f)
    lifted(1)
    count = len(_core.all_tables())
    del f, residual, entry, lifted
    gc.collect()
    assert [reference() for reference in gone] == [None, None, None]
    assert len(_core.all_tables()) == count - 1


def test_table_outlives_its_code_while_held() -> None:
    f = make_function()
    accept(f, lambda x: x)
    table = _core.table_for(f.__code__, "test")
    del f
    assert table.code is None and len(table.entries) == 1


def test_residual_globals_in_a_cycle_are_collected() -> None:
    f = make_function()
    residual = private(make_function())
    residual.__globals__["itself"] = residual
    accept(f, residual)
    gone = weakref.ref(residual)
    del f, residual
    gc.collect()
    assert gone() is None


def test_lifted_in_cycles_is_collected() -> None:
    f = make_function()
    f.__globals__["f"] = lifted = lift(f)
    lifted.itself = lifted
    gone = [weakref.ref(f), weakref.ref(lifted)]
    del f, lifted
    gc.collect()
    assert [reference() for reference in gone] == [None, None]

    class Compiler:
        def miss(self, lifted, slots):
            return None

    compiler = Compiler()
    compiler.lifted = lift(make_function(), compiler.miss)
    gone = [weakref.ref(compiler), weakref.ref(compiler.lifted)]
    del compiler
    gc.collect()
    assert [reference() for reference in gone] == [None, None]


def test_weak_reference_to_lifted() -> None:
    lifted = lift(make_function())
    seen: list[object] = []
    reference = weakref.ref(lifted, seen.append)
    assert reference() is lifted
    del lifted
    assert reference() is None and seen == [reference]


class Backend:
    pass


@pytest.mark.parametrize("wrap", [lambda r: r, lambda r: ("options", r), lambda r: ("options", (1, (r,)))])
def test_table_goes_with_what_its_key_refers_to_weakly(wrap: Any) -> None:
    backend = Backend()
    f = make_function()
    lifted = lift(f, key=wrap(weakref.ref(backend)))
    other = _core.table_for(f.__code__, "other")
    lifted.table.install(tree(1), private(make_function()), None)
    gone = weakref.ref(lifted.table.entries[0].residual)
    assert lifted.table is _core.table_for(f.__code__, wrap(weakref.ref(backend)))
    del backend
    gc.collect()
    assert gone() is None
    assert _core.tables_of(f.__code__) == [other]
    assert lifted.table.entries == [] and lifted.table.code is None
    assert lifted(1) == ("function", 1)


def test_backend_that_dies_while_its_residual_code_runs() -> None:
    holder = [Backend()]
    f = make_function()
    f.holder = holder
    lifted = lift(f, key=weakref.ref(holder[0]))

    def r(x, function):
        function.holder.clear()
        return "residual"

    lifted.table.install(tree(1, fetch_function=True), r, None)
    assert lifted(1) == "residual"
    assert _core.tables_of(f.__code__) == []
    assert lifted(1) == ("function", 1)


def test_the_table_dies_before_the_backend() -> None:
    backend = Backend()
    f = make_function()
    before = weakref.getweakrefcount(backend)
    lift(f, key=weakref.ref(backend))
    del f
    gc.collect()
    assert weakref.getweakrefcount(backend) == before
    del backend


def test_references_are_balanced() -> None:
    f = make_function()
    key, label, value = ("key", Owner()), Owner(), Owner()
    residual = make_function()
    objects = (f, f.__code__, key, label, value, residual, residual.__code__, no_miss)
    before = references(*objects)
    for _ in range(10):
        lifted = lift(f, key=key)
        lifted.table.install(tree(1, (0, _core.CHECK_IS, value)), residual, label)
        assert lifted(value) == ("function", value)
        assert lifted(x=value) == ("function", value)
        assert lifted(3) == ("function", 3)
        lifted.table.clear()
    assert nslots(f.__code__) == 1
    _core.tables_of(f.__code__)
    after = references(*objects)
    assert after[0] == before[0] + 1 and after[1] == before[1] + 1  # lifted holds the function and its code
    assert after[2] == before[2] + 1  # the table holds the key
    assert after[3:7] == before[3:7]
    del lifted
    after = references(*objects)
    assert after[:2] == before[:2] and after[7] == before[7]


def test_several_parts_of_a_key_that_die_together():
    class Part:
        pass

    def function(x):
        return x

    tables = []
    for _ in range(50):
        parts = [Part() for _ in range(4)]
        for part in parts:
            part.others = parts
        key = tuple(weakref.ref(part) for part in parts)
        tables.append(weakref.ref(_core.table_for(function.__code__, key)))
    del part, parts, key
    # The collector calls back for every part; the first call drops the table the others are about.
    gc.collect()
    assert all(table() is None for table in tables)
    assert _core.tables_of(function.__code__) == []
