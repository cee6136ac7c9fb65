"""Modules: attributes read and written, imports inside functions, module-level __getattr__."""

from __future__ import annotations

import math
import sys
import types

import pytest
import torch

import framelift
from tests.values.programs import Programs, follow, x

programs = Programs()


@pytest.fixture
def made(monkeypatch):
    module = types.ModuleType("made_for_a_test")
    exec("k = 1\ndef f(x):\n    return x * k\ndef bump():\n    global k\n    k += 1\n    return k", module.__dict__)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module


@programs
def attributes(x):
    return x * math.pi + math.floor(2.5), math.inf, torch.float32


@programs
def import_inside(x):
    import math as m
    from math import pi, tau

    return x * m.pi + pi - tau


@programs
def import_dotted(x):
    import torch.nn.functional
    import torch.nn.functional as F
    from torch.nn import functional

    return F.relu(x), functional.relu(x), torch.nn.functional.gelu(x)


@programs(expect_breaks=None, expect_ops=0)
def import_missing(x):
    try:
        import no_such_module_at_all  # noqa: F401
    except ImportError:
        return x + 1


@programs
def missing_attribute(x):
    try:
        math.nothing
    except AttributeError as error:
        return x + 1, str(error), hasattr(math, "sin"), getattr(math, "zzz", 2)


@programs
def module_as_value(x):
    modules = {"m": math}
    return x + modules["m"].pi, modules["m"] is math, math.__name__


def test_attributes_change(made):
    def fn(x):
        return made.f(x) + made.k

    follow(
        fn,
        (x(),),
        lambda: setattr(made, "k", 3),
        lambda: setattr(made, "f", lambda v: v - 1),
        lambda: made.__dict__.update(k=9),
    )


def test_a_function_writes_its_module(made):
    def fn(x):
        return x + made.bump() + made.k

    lifted = framelift.compile(fn, backend="eager")
    assert torch.equal(lifted(x()), x() + 4)
    assert made.k == 2
    assert torch.equal(lifted(x()), x() + 6)
    assert made.k == 3


def test_attributes_are_written(made):
    def fn(x):
        made.fresh = x + 1
        made.k = 50
        return made.f(made.fresh)

    lifted = framelift.compile(fn, backend="eager")
    for _ in range(2):
        made.__dict__.pop("fresh", None)
        made.k = 1
        assert torch.equal(lifted(x()), (x() + 1) * 50)
        assert made.k == 50 and torch.equal(made.fresh, x() + 1)


def test_an_attribute_is_deleted(made):
    def fn(x):
        y = x + made.k
        del made.k
        return y

    lifted = framelift.compile(fn, backend="eager")
    assert torch.equal(lifted(x()), x() + 1)
    assert not hasattr(made, "k")


def test_module_getattr(made):
    exec("def __getattr__(name):\n    return len(name)", made.__dict__)
    follow(lambda x: x + made.abcd, (x(),), lambda: setattr(made, "abcd", 10))


def test_a_module_is_replaced(made, monkeypatch):
    other = types.ModuleType("made_for_a_test")
    other.k = 70

    def fn(x):
        import made_for_a_test

        return x + made_for_a_test.k

    follow(fn, (x(),), lambda: monkeypatch.setitem(sys.modules, "made_for_a_test", other))


def test_a_module_with_its_own_class(made):
    class Module(types.ModuleType):
        @property
        def p(self):
            return 5

    module = Module("strange")
    follow(lambda x: (x + 1) * module.p, (x(),))


def test_import_runs_in_python_where_the_module_is_not_loaded(tmp_path, monkeypatch):
    (tmp_path / "loaded_late.py").write_text("print('loading')\nk = 4\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "loaded_late", raising=False)

    def fn(x):
        y = x + 1
        import loaded_late

        return y * loaded_late.k

    lifted = framelift.compile(fn, backend="eager")
    for _ in range(2):
        assert torch.equal(lifted(x()), (x() + 1) * 4)


test_programs = programs.test()
