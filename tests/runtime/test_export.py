"""`framelift.export`: called as the original, with its containers, and checking what it was captured for."""

from __future__ import annotations

import copy
import dataclasses
import inspect
from collections import OrderedDict, namedtuple
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

import framelift
from framelift.errors import FullGraphError
from tests.helpers import assert_same


@dataclasses.dataclass
class Given:
    x: Any
    rest: Any


pytree.register_dataclass(Given)
Pair = namedtuple("Pair", "left right")
A, B, C = (torch.arange(3.0) + n for n in (0, 10, 20))


def exported(fn: Any, *args: Any, **kwargs: Any) -> Any:
    module, guards = framelift.export(fn)(*args, **kwargs)
    assert guards
    return module


class TestSignature:
    def test_names_defaults_and_keywords(self) -> None:
        def fn(x, /, y, scale=2.0, *, shift=None, power: int = 2):
            return (x * scale).sum() + y.sum() ** power

        module = exported(fn, A, B)
        assert_same(fn(C, A), module(C, y=A))
        assert_same(fn(A, C, shift=None, power=2), module(A, C, shift=None, power=2))
        given, original = (inspect.signature(f).parameters for f in (module.forward, fn))
        assert [(p.name, p.kind) for p in given.values()] == [(p.name, p.kind) for p in original.values()]

    def test_many_arguments(self) -> None:
        def fn(first, *rest, **named):
            return first.sum() + sum(r.sum() for r in rest) - named["last"].sum()

        module = exported(fn, A, B, C, last=A.clone())
        assert_same(fn(C, C, A, last=B), module(C, C, A, last=B))

    def test_a_module_is_called_like_its_forward(self) -> None:
        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = torch.nn.Linear(3, 2)

            def forward(self, hidden, mask=None):
                return self.linear(hidden)

        model = Model()
        module = exported(model, torch.ones(4, 3))
        assert_same(model(torch.zeros(4, 3)), module(hidden=torch.zeros(4, 3)))

    def test_methods_and_partials(self) -> None:
        class Scaler:
            def __init__(self):
                self.factor = torch.tensor(3.0)

            def scale(self, x):
                return x * self.factor

        scaler = Scaler()
        assert_same(scaler.scale(B), exported(scaler.scale, B)(x=B))

    def test_an_argument_that_is_not_used(self) -> None:
        module = exported(lambda x, y: y + 1, A, B)
        assert_same(C + 1, module(A, C))

    def test_a_number_that_may_differ(self) -> None:
        def fn(x, n):
            return x * n

        module, _ = framelift.export(fn, A, 3, dynamic_shapes={"n": True})
        for n in (3, 4, -2):
            assert_same(fn(A, n), module(A, n))


class TestStructures:
    def test_containers_in_and_out(self) -> None:
        def fn(batch, pair):
            x, y = batch["x"], batch["rest"][0]
            return {"sum": x.sum() + y.sum(), "both": [x, (y, pair.left * 2)], "none": None, "flag": True}

        module = exported(fn, {"x": A, "rest": [B]}, Pair(C, 1))
        given = ({"x": B, "rest": [C]}, Pair(A, 1))
        assert_same(fn(*given), module(*given))

    @pytest.mark.parametrize(
        "fn",
        [
            lambda x: x + 1,
            lambda x: [x + 1, 2, "text"],
            lambda x: (x + 1,),
            lambda x: Pair(x + 1, [x + 2]),
            lambda x: OrderedDict(a=x + 1, b=[x + 2, None]),
            lambda x: {"a": Pair(x, x.sum())},
        ],
    )
    def test_kinds_of_results(self, fn: Any) -> None:
        module = exported(fn, A)
        result = module(B)
        assert_same(fn(B), result)
        assert type(result) is type(fn(B))

    def test_classes_that_pytree_knows(self) -> None:
        module = exported(lambda given: Given(given.x * 2, {"k": given.x.sum()}), Given(A, 3))
        expected, actual = Given(B * 2, {"k": B.sum()}), module(Given(B, 3))
        assert type(actual) is Given
        assert_same((expected.x, expected.rest), (actual.x, actual.rest))

    def test_another_structure_is_refused(self) -> None:
        module = exported(lambda xs: xs[0] + 1, [A])
        with pytest.raises(TypeError, match="structure"):
            module([A, B])

    def test_another_constant_is_refused(self) -> None:
        def fn(x, flag, options):
            return x + 1 if flag else x - options["step"]

        module = exported(fn, A, False, {"step": 2})
        assert_same(B - 2, module(B, False, {"step": 2}))
        with pytest.raises(ValueError, match="flag was False when it was exported, now True"):
            module(B, True, {"step": 2})
        with pytest.raises(ValueError, match=r"options\['step'\] was 2 when it was exported, now 3"):
            module(B, False, {"step": 3})

    def test_one_tensor_in_two_places(self) -> None:
        module = exported(lambda x, y: x + y, A, A)
        assert_same(B + B, module(B, B))
        with pytest.raises(ValueError, match="x and y were one object"):
            module(A, A.clone())


class TestWhatIsAssumed:
    """Constraints are told, and checked when the module is called."""

    def test_of_named_sizes(self) -> None:
        def fn(x):
            return x.view(-1, 2)

        module, guards = framelift.export(fn, torch.ones(4), dynamic_shapes={"x": {0: (2, 64)}})
        words = "; ".join(map(str, guards))
        assert "(L['x'].size()[0] % 2) == 0" in words and "L['x'].size()[0] <= 64" in words
        assert module(torch.ones(8)).shape == (4, 2)
        for size, fact in ((5, r"% 2"), (66, r"<= 64"), (1, r">= 2")):
            with pytest.raises(RuntimeError, match=rf"not so: .*{fact}.* L\['x'\].size\(\)\[0\]"):
                module(torch.ones(size))

    def test_of_data(self) -> None:
        def fn(x, n):
            u = n.item()
            torch._check(u < 4)
            return x[:u]

        x = torch.ones(5)
        module = exported(fn, x, torch.tensor(3))
        assert module(x, torch.tensor(2)).shape == (2,)
        with pytest.raises(RuntimeError, match="not so: u0 < 4|not so: u0 <= 3"):
            module(x, torch.tensor(4))

    def test_of_sizes_that_are_not_to_be_known(self) -> None:
        x = torch.ones(4, 3)
        framelift.mark_unbacked(x, 0)
        module = exported(lambda x: x.sin() * x.shape[0], x)
        assert module(torch.ones(9, 3)).shape == (9, 3)
        with pytest.raises(RuntimeError, match="not so"):
            module(torch.ones(1, 3))


def test_a_break_is_an_error() -> None:
    with pytest.raises(FullGraphError, match="FL"):
        exported(lambda x: x + 1 if x.sum() > 0 else x - 1, A)


def test_the_module_is_a_graph_module() -> None:
    def fn(batch, scale=2):
        return {"y": batch[0] * scale}

    module = exported(fn, [A])
    assert isinstance(module, torch.fx.GraphModule)
    again = copy.deepcopy(module)
    for other in (again, torch.fx.GraphModule(module, module.graph)):
        assert_same(fn([B]), other([B]))
    assert_same(fn([B])["y"], torch.fx.Interpreter(module).run([B])["y"])
    assert "batch" in module.code


def test_as_aten() -> None:
    def fn(batch, scale=2):
        return {"y": (batch[0] * scale).relu()}

    module, _ = framelift.export(fn, [A], aten_graph=True)
    assert_same(fn([A]), module([A], scale=2))
    assert_same(fn([C[:3]]), module(batch=[C[:3]]))
