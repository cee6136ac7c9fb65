"""The definitions of guards: complete, in words, and really compared with the native check."""

from __future__ import annotations

import collections
import dataclasses
import doctest
import types
from typing import Any

import pytest

from framelift.guards import accessors, checks, reference
from framelift.guards.relations import Relation
from framelift.guards.source import Sources
from framelift.native import core
from framelift.native.torch import calibrate, tensor_spec
from framelift.native.torch.tensor_spec import TensorSpec
from tests.native.guards_builder import Nodes, function, hits


def test_every_native_kind_is_defined() -> None:
    steps = {getattr(core, name) for name in dir(core) if name.startswith("ACCESS_")}
    facts = {getattr(core, name) for name in dir(core) if name.startswith("CHECK_")}
    assert set(accessors.ACCESSORS) == steps
    assert set(checks.CHECKS) == facts
    for kind in (*accessors.ACCESSORS.values(), *checks.CHECKS.values()):
        prefix = "ACCESS" if kind.number in steps else "CHECK"
        assert getattr(core, f"{prefix}_{kind.name}") == kind.number


@pytest.mark.parametrize("module", [accessors, checks, tensor_spec])
def test_examples(module: Any) -> None:
    assert doctest.testmod(module).failed == 0


class Plain:
    pass


@pytest.mark.parametrize(
    ("check", "argument", "expected"),
    [
        (checks.type_is, int, "type(x) is int"),
        (checks.type_is, collections.OrderedDict, "type(x) is OrderedDict"),
        (checks.is_object, None, "x is None"),
        (checks.is_object, test_every_native_kind_is_defined, "x is test_every_native_kind_is_defined"),
        (checks.is_not_object, Plain(), "x is not a Plain object"),
        (checks.equals, (1, "a"), "x == (1, 'a')"),
        (checks.equals, "a" * 200, "x == '" + "a" * 78 + "…"),
        (checks.compares, ("<", 3, True), "x < 3"),
        (checks.compares, ("<", 3, False), "not x < 3"),
        (checks.length_is, 3, "len(x) == 3"),
        (checks.dict_keys_are, ("a", 1), "list(x) == ['a', 1]"),
        (checks.key_absent, "a", "'a' not in x"),
        (checks.set_equals, frozenset([2, 1]), "x == {1, 2}"),
        (checks.type_absent, "f", "x has no attribute 'f'"),
        (checks.has_attribute, "f", "hasattr(x, 'f')"),
        (checks.no_attribute, "f", "not hasattr(x, 'f')"),
        (checks.cell_empty, None, "x is an empty cell"),
        (
            checks.tensor_is,
            TensorSpec(None, 1, "torch.float32", "cpu", True, (3, None), (8, 1)),
            "x is float32[3, any] on cpu with strides [8, 1] requiring grad",
        ),
        (checks.tensor_is, TensorSpec(None, 1, "torch.int8", "cpu", False, (3, 2), (2, 1)), "x is int8[3, 2] on cpu"),
    ],
)
def test_words(check: checks.Check, argument: Any, expected: str) -> None:
    assert check.words("x", argument) == expected


@pytest.mark.parametrize(
    ("access", "argument", "expected"),
    [
        (accessors.dict_item, "k", "x['k']"),
        (accessors.list_item, 3, "x[3]"),
        (accessors.class_attribute, "f", "x.f"),
        (accessors.type_of, None, "type(x)"),
        (accessors.cell_contents, None, "x.cell_contents"),
        (accessors.function_code, None, "x.__code__"),
    ],
)
def test_words_of_accessors(access: accessors.Accessor, argument: Any, expected: str) -> None:
    assert access.words("x", argument) == expected


def test_words_of_relations() -> None:
    sources = [Sources(tuple("abcdef")).argument(i) for i in range(6)]
    assert Relation("SAME", tuple(sources[:2])).words == "L['a'] is L['b']"
    assert Relation("DISTINCT", tuple(sources)).words == (
        "all different objects: L['a'], L['b'], L['c'], L['d'], … (6 in all)"
    )
    assert Relation("OVERLAP", tuple(sources[:2]), False).words == "L['a'] and L['b'] do not share memory"
    assert Relation("DISJOINT", tuple(sources), written=1).words == "no other input shares memory with L['a']"


def test_a_lie_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Strict mode compares: with a wrong definition, it says so."""
    nodes = Nodes()
    nodes.arg(LENGTH=2, name="x")
    tree = nodes.tree()
    honest = checks.CHECKS[core.CHECK_LENGTH]
    monkeypatch.setitem(
        checks.CHECKS, core.CHECK_LENGTH, dataclasses.replace(honest, holds=lambda obj, n: len(obj) != n)
    )
    with pytest.raises(AssertionError, match=r"the native guards hit, but len\(x\) was 2, now 2"):
        tree.check_strict(([1, 2],), function)
    with pytest.raises(
        AssertionError, match=r"the native guards missed \(len\(x\) was 2, now 3\), but every guard holds"
    ):
        tree.check_strict(([1, 2, 3],), function)
    monkeypatch.undo()
    assert hits(tree, [1, 2])


def test_other_objects_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = Nodes()
    nodes.add(nodes.arg(), "LIST_ITEM", 0, out=True)
    tree = nodes.tree()
    honest = accessors.ACCESSORS[core.ACCESS_LIST_ITEM]
    wrong = dataclasses.replace(honest, step=lambda obj, i: obj[i + 1])
    monkeypatch.setitem(accessors.ACCESSORS, core.ACCESS_LIST_ITEM, wrong)
    with pytest.raises(AssertionError, match="fetched other objects"):
        tree.check_strict(([[], []],), function)


def test_evaluation() -> None:
    nodes = Nodes()
    root = nodes.arg(TYPE=list, name="x")
    nodes.add(root, "LIST_ITEM", 1, name="x[1]", out=True, EQUALS=5)
    tree = nodes.tree()
    assert reference.evaluate(tree, ([4, 5],), function) == (5,)
    assert reference.evaluate(tree, ([4, 6],), function) == reference.Failure(1, core.CHECK_EQUALS, "x[1] was 5, now 6")
    assert reference.evaluate(tree, ([4],), function) == reference.Failure(1, core.ACCESS_LIST_ITEM, "x[1] is gone")


def test_reading_runs_no_code_of_the_user() -> None:
    class Trap:
        def __getattribute__(self, name: str) -> Any:
            raise AssertionError(name)

        def __eq__(self, other: object) -> bool:
            raise AssertionError

        def __hash__(self) -> int:
            return 1

        def __repr__(self) -> str:
            raise AssertionError

    trap = Trap()
    for check in checks.CHECKS.values():
        argument: Any = {
            "COMPARE": ("<", 1, True),
            "TENSOR": tuple(TensorSpec(None)),
            "DICT_KEYS": ("a",),
            "SET_EQUALS": (1,),
            "SET_ORDER": (1,),
            "TYPE_KEYS": ("a",),
        }.get(check.name, "name")
        check.holds(trap, argument)
        assert isinstance(check.change("x", argument, trap), str)
    for access in accessors.ACCESSORS.values():
        if access.name not in ("ARG", "SLOT"):
            access.step(trap, 0 if access.name.endswith("_ITEM") else "name")


def test_instance_dict_like_the_native_one() -> None:
    module = types.ModuleType("m")
    for obj in (
        Plain(),
        module,
        function,
        Plain,
        3,
        [],
        collections.OrderedDict(),
        Exception("x"),
        types.SimpleNamespace(a=1),
    ):
        nodes = Nodes()
        nodes.add(nodes.arg(), "INSTANCE_DICT")
        hits(nodes.tree(), obj)  # strict: they agree


def test_tensor_specs() -> None:
    import torch

    calibrate.ensure()
    x = torch.randn(3, 4)
    spec = calibrate.tensor_spec(x)
    assert spec.matches(calibrate.tensor_facts(x)) and not spec.matches(None)
    assert spec.words() == "float32[3, 4] on cpu"
    assert TensorSpec(torch.Tensor).words() == "any dtypeany shape on any device"
    assert list(spec.differences("x", calibrate.tensor_facts(torch.randn(4, 3).t()))) == [
        "x.stride()[0] was 4, now 1",
        "x.stride()[1] was 1, now 3",
    ]
