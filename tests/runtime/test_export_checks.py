"""`framelift.export`: a module that is called with what it was not exported for says so, and never answers wrongly."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.export import Dim
from torch.fx.experimental.proxy_tensor import make_fx

import framelift
from framelift.errors import DynamicError, FullGraphError
from tests.helpers import assert_same
from tests.helpers.record import Record

ATEN = pytest.mark.parametrize("aten_graph", [False, True], ids=["torch", "aten"])


def times_size(x: Any) -> Any:
    return x * x.shape[0]


class Options:
    factor = 2

    def __init__(self, **named: Any) -> None:
        self.__dict__.update(named)

    def __call__(self, x: Any, n: int) -> Any:
        return x * n * self.factor

    def method(self, x: Any, n: int) -> Any:
        return x * n * self.factor


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 2)

    def forward(self, x, n=2, *rest, flag=True, **named):
        y = self.linear(x) * n + sum(r.sum() for r in rest)
        return y + named["z"].sum() if flag and "z" in named else y


@ATEN
class TestTensors:
    @pytest.mark.parametrize(
        ("other", "words"),
        [
            (torch.ones(6), r"x.size\(\)\[0\] was 4 when it was exported, now 6 .dynamic_shapes"),
            (torch.ones(1), r"x.size\(\)\[0\] was 4 when it was exported, now 1"),
            (torch.ones(0), r"x.size\(\)\[0\] was 4 when it was exported, now 0"),
            (torch.ones(4, 1), r"x.dim\(\) was 1 when it was exported, now 2: \[4\] became \[4, 1\]"),
            (torch.tensor(1.0), r"x.dim\(\) was 1 when it was exported, now 0: \[4\] became \[\]"),
            (torch.ones(4).double(), r"x.dtype was torch.float32 when it was exported, now torch.float64"),
            (torch.ones(4).long(), r"x.dtype was torch.float32 when it was exported, now torch.int64"),
            (torch.ones(4, device="meta"), r"x.device was cpu when it was exported, now meta"),
            (torch.ones(4).to_sparse(), r"x.layout was torch.strided when it was exported, now torch.sparse_coo"),
            (4, r"x was a tensor when it was exported, now 4"),
            ("text", r"x was a tensor when it was exported, now 'text'"),
        ],
    )
    def test_another_one_is_refused(self, other: Any, words: str, aten_graph: bool) -> None:
        module, _ = framelift.export(times_size, torch.ones(4), aten_graph=aten_graph)
        assert_same(times_size(torch.zeros(4)), module(torch.zeros(4)))
        with pytest.raises(ValueError, match=words):
            module(other)

    def test_what_makes_no_difference(self, aten_graph: bool) -> None:
        module, _ = framelift.export(times_size, torch.ones(4), aten_graph=aten_graph)
        for x in (torch.nn.Parameter(torch.ones(4)), torch.ones(4, requires_grad=True), torch.ones(8)[4:]):
            assert_same(times_size(x), module(x))

    def test_its_size_alone(self, aten_graph: bool) -> None:
        module, _ = framelift.export(lambda x, y: x + y.shape[0], torch.ones(2), torch.ones(3), aten_graph=aten_graph)
        with pytest.raises(ValueError, match=r"y.size\(\)\[0\] was 3 when it was exported, now 5"):
            module(torch.ones(2), torch.ones(5))

    def test_strides(self, aten_graph: bool) -> None:
        """Operators of ATEN were chosen for them; those of torch look for themselves."""
        module, _ = framelift.export(lambda x: x.reshape(-1) * 2, torch.ones(4, 4), aten_graph=aten_graph)
        x = torch.arange(16.0).reshape(4, 4).t()
        if aten_graph:
            with pytest.raises(ValueError, match=r"x.stride\(\)\[0\] was 4 when it was exported, now 1"):
                module(x)
        else:
            assert_same(x.reshape(-1) * 2, module(x))

    @pytest.mark.parametrize(
        "fn",
        [
            lambda x: x * 2 if x.is_contiguous() else x * 3,
            lambda x: x * x.stride(0),
            lambda x: x.contiguous().view(-1) * 2,
            lambda x: x.contiguous(),
            lambda x: x.to(memory_format=torch.contiguous_format).view(-1),
            lambda x: (x + 1).stride(0) * x,
        ],
    )
    def test_strides_that_decided_something(self, fn: Any, aten_graph: bool) -> None:
        module, _ = framelift.export(fn, torch.ones(4, 4), aten_graph=aten_graph)
        x = torch.arange(16.0).reshape(4, 4)
        assert_same(fn(x), module(x))
        with pytest.raises(ValueError, match=r"x.stride\(\)\[0\] was 4 when it was exported, now 1"):
            module(x.t())

    def test_what_autograd_knows(self, aten_graph: bool) -> None:
        fn = lambda x: x * 2 if x.requires_grad else x * 3  # noqa: E731
        module, _ = framelift.export(fn, torch.ones(4), aten_graph=aten_graph)
        with pytest.raises(ValueError, match="x.requires_grad was False when it was exported, now True"):
            module(torch.ones(4, requires_grad=True))

    def test_where_it_begins(self, aten_graph: bool) -> None:
        module, _ = framelift.export(lambda x: x * x.storage_offset(), torch.ones(5)[1:], aten_graph=aten_graph)
        assert module(torch.ones(7)[1:5]).sum() == 4
        with pytest.raises(ValueError, match=r"x.storage_offset\(\) was 1 when it was exported, now 2"):
            module(torch.ones(6)[2:])

    def test_in_containers_and_keywords(self, aten_graph: bool) -> None:
        def fn(batch, *rest, scale, **named):
            return batch["x"][0] * scale + rest[0].sum() + named["bias"]

        def given(x=2, rest=3, bias=2):
            return ({"x": [torch.ones(x)]}, torch.ones(rest)), {"scale": 2, "bias": torch.ones(bias)}

        args, kwargs = given()
        module, _ = framelift.export(fn, *args, aten_graph=aten_graph, **kwargs)
        assert_same(fn(*args, **kwargs), module(*args, **kwargs))
        wrong = [("batch['x'][0]", 2, {"x": 1}), ("rest[0]", 3, {"rest": 1}), ("named['bias']", 2, {"bias": 1})]
        for name, was, sizes in wrong:
            args, kwargs = given(**sizes)
            with pytest.raises(ValueError) as caught:
                module(*args, **kwargs)
            assert f"{name}.size()[0] was {was} when it was exported, now 1" in str(caught.value)


class TestOtherArguments:
    @pytest.mark.parametrize(
        ("fn", "was", "now", "words"),
        [
            (lambda x, n: x * n, 3, 4, "n was 3 when it was exported, now 4"),
            (lambda x, n: x * n, 3, True, "n was 3 when it was exported, now True"),
            (lambda x, n: x * n, 3, 3.0, "n was 3 when it was exported, now 3.0"),
            (lambda x, n: x * n, 2.5, 3.5, "n was 2.5 when it was exported, now 3.5"),
            (lambda x, t: x.to(t), torch.float64, torch.half, "t was torch.float64 when it was exported, now torch.f"),
            (lambda x, o: x * o.k, Options(k=3), Options(k=5), "o.k was 3 when it was exported, now 5"),
            (lambda x, o: x * o.k, Options(k=3), Options(), r"there was o.k when it was exported, now there is none"),
            (lambda x, o: x * len(o), {1, 2}, {1, 2, 3}, r"len\(o\) was 2 when it was exported, now 3"),
            (lambda x, f: f(x), torch.sin, torch.cos, "f was .*sin when it was exported, now .*cos"),
            (lambda x, o: x if isinstance(o, Options) else -x, Options(), 3, r"type\(o\) was Options when .* now int"),
            (lambda x, o: x * o.t.shape[0], Options(t=torch.ones(2)), Options(t=torch.ones(3)), r"o.t.size\(\)\[0\] w"),
        ],
    )
    def test_another_one_is_refused(self, fn: Any, was: Any, now: Any, words: str) -> None:
        x = torch.ones(2)
        module, _ = framelift.export(fn, x, was)
        assert_same(fn(x, was), module(x, was))
        with pytest.raises(ValueError, match=words):
            module(x, now)

    def test_one_object_or_two(self) -> None:
        x, y = torch.ones(2), torch.zeros(2)
        module, _ = framelift.export(lambda x, y: x * 2 if x is y else x * 3, x, y)
        assert module(y, x).sum() == 0
        with pytest.raises(ValueError, match="x and y were two objects when it was exported, now they are one"):
            module(x, x)

    def test_arrays(self) -> None:
        numpy = pytest.importorskip("numpy")
        fn = lambda x, a: x + torch.from_numpy(a).sum()  # noqa: E731
        module, _ = framelift.export(fn, torch.ones(2), numpy.ones(3))
        assert_same(fn(torch.ones(2), numpy.ones(3) * 7), module(torch.ones(2), numpy.ones(3) * 7))
        with pytest.raises(ValueError, match=r"\(a\).size\(\)\[0\] was 3 when it was exported, now 4"):
            module(torch.ones(2), numpy.ones(4))

    def test_globals_and_modules_are_in_the_graph(self) -> None:
        """As weights are: they may change without the exported module."""
        scaler = Options(factor=3)
        module, _ = framelift.export(scaler.method, torch.ones(2), 5)
        scaler.factor = 4
        assert module(torch.ones(2), 5).tolist() == [15.0, 15.0]


def wrapped(fn: Any) -> Any:
    return functools.partial(fn)


class TestDynamicShapes:
    FORMS: tuple[Any, ...] = (
        {"x": {0: Dim("n", min=2, max=16)}, "y": None},
        {"x": {0: Dim("n", min=2, max=16)}},
        {"x": {0: (2, 16)}},
        {"x": (Dim("n", min=2, max=16), None), "y": None},
        {"x": [Dim("n", min=2, max=16), 3], "y": (None,)},
        {"x": {0: Dim("n", min=2, max=16), 1: Dim.STATIC}, "y": {0: 5}},
        {"x": {-2: Dim("n", min=2, max=16)}},
        ({0: Dim("n", min=2, max=16)}, None),
        [{0: Dim("n", min=2, max=16)}, None],
        ((Dim("n", min=2, max=16), None), {}),
    )

    @ATEN
    @pytest.mark.parametrize("form", FORMS)
    @pytest.mark.parametrize("kind", [lambda fn: fn, wrapped], ids=["function", "partial"])
    def test_forms(self, form: Any, aten_graph: bool, kind: Callable[[Any], Any]) -> None:
        def fn(x, y):
            return x * x.shape[0] + y.sum()

        given = torch.ones(4, 3), torch.ones(5)
        module, _ = framelift.export(kind(fn), *given, dynamic_shapes=form, aten_graph=aten_graph)
        for n in (4, 2, 7, 16):
            assert_same(fn(torch.ones(n, 3), given[1]), module(torch.ones(n, 3), given[1]))
        size = r"L\['x'\].size\(\)\[0\]"
        for n, fact in ((17, "<= 16"), (1, ">= 2"), (0, ">= 2")):
            with pytest.raises(RuntimeError, match=f"not so: {size} {fact}, where {size} is {n}"):
                module(torch.ones(n, 3), given[1])
        with pytest.raises(ValueError, match=r"x.size\(\)\[1\] was 3 when it was exported, now 4"):
            module(torch.ones(4, 4), given[1])
        with pytest.raises(ValueError, match=r"y.size\(\)\[0\] was 5 when it was exported, now 6"):
            module(torch.ones(4, 3), torch.ones(6))

    @pytest.mark.parametrize("hint", [Dim.AUTO, Dim.DYNAMIC, Dim("n"), True])
    def test_hints(self, hint: Any) -> None:
        module, _ = framelift.export(times_size, torch.ones(4), dynamic_shapes={"x": {0: hint}})
        for n in (4, 2, 700):
            assert_same(times_size(torch.ones(n)), module(torch.ones(n)))
        with pytest.raises(RuntimeError, match=r"not so: .* >= 2, where L\['x'\].size\(\)\[0\] is 1"):
            module(torch.ones(1))

    @pytest.mark.parametrize("hint", [Dim.STATIC, None, 4, False])
    def test_static(self, hint: Any) -> None:
        module, _ = framelift.export(times_size, torch.ones(4), dynamic_shapes={"x": {0: hint}})
        with pytest.raises(ValueError, match=r"x.size\(\)\[0\] was 4 when it was exported, now 6"):
            module(torch.ones(6))

    def test_a_size_that_the_program_needs(self) -> None:
        fn = lambda x: x + torch.ones(4)  # noqa: E731
        for strict in (Dim("n"), Dim.DYNAMIC):
            with pytest.raises(DynamicError, match="was marked dynamic, but .* needs it to be 4"):
                framelift.export(fn, torch.ones(4), dynamic_shapes={"x": {0: strict}})
        module, _ = framelift.export(fn, torch.ones(4), dynamic_shapes={"x": {0: Dim.AUTO}})
        with pytest.raises(
            RuntimeError, match=r"not so: L\['x'\].size\(\)\[0\] == 4, where L\['x'\].size\(\)\[0\] is 6"
        ):
            module(torch.ones(6))

    def test_facts_about_several(self) -> None:
        fn = lambda x, y: x.view(-1, 2).sum(1) + y  # noqa: E731
        shapes = ({0: Dim("n")}, {0: Dim("m")})
        module, _ = framelift.export(fn, torch.ones(8), torch.ones(4), dynamic_shapes=shapes)
        assert module(torch.ones(12), torch.ones(6)).shape == (6,)
        with pytest.raises(
            RuntimeError, match=r"not so: .*L\['x'\].size\(\)\[0\] is 12 and L\['y'\].size\(\)\[0\] is 5"
        ):
            module(torch.ones(12), torch.ones(5))

    def test_a_name_for_several_sizes(self) -> None:
        n = Dim("n", max=64)
        fn = lambda x, ys: (x + 1, ys[0].sum(), ys[1] * 2)  # noqa: E731
        shapes = {"x": {0: n}, "ys": [(None, n), {0: 2 * n + 1}]}

        def given(*sizes):
            return torch.ones(sizes[0]), [torch.ones(2, sizes[1]), torch.ones(sizes[2])]

        module, _ = framelift.export(fn, *given(3, 3, 7), dynamic_shapes=shapes)
        assert_same(fn(*given(5, 5, 11)), module(*given(5, 5, 11)))
        wrong = [((5, 4, 11), r"ys\[0\].size\(\)\[1\] == n, where n is x.size\(\)\[0\] is 5 and .* is 4")]
        wrong += [((5, 5, 9), r"ys\[1\].size\(\)\[0\] == 2\*n \+ 1, where n is x.size\(\)\[0\] is 5 and .* is 9")]
        for sizes, words in wrong:
            with pytest.raises(RuntimeError, match=f"not so: {words}"):
                module(*given(*sizes))
            with pytest.raises(ValueError, match=f"dynamic_shapes says that {words}"):
                framelift.export(fn, *given(*sizes), dynamic_shapes=shapes)

    def test_a_branch(self) -> None:
        fn = lambda x: x + 1 if x.shape[0] > 3 else x - 1  # noqa: E731
        module, _ = framelift.export(fn, torch.ones(4), dynamic_shapes={"x": {0: Dim.AUTO}})
        assert module(torch.ones(5)).sum() == 10
        with pytest.raises(
            RuntimeError, match=r"not so: L\['x'\].size\(\)\[0\] >= 4|not so: L\['x'\].size\(\)\[0\] > 3"
        ):
            module(torch.ones(2))

    def test_all_kinds_of_parameters_of_a_module(self) -> None:
        model, n = Model(), Dim("n")
        shapes = {"x": {0: n}, "n": True, "rest": ({0: Dim("r")},), "flag": None, "named": {"z": {0: Dim("z")}}}
        given = torch.ones(4, 3), 3, torch.ones(2)
        module, _ = framelift.export(model, *given, z=torch.ones(5), dynamic_shapes=shapes)
        other = torch.ones(7, 3), 5, torch.ones(9)
        assert_same(model(*other, z=torch.ones(8)), module(*other, z=torch.ones(8)))
        with pytest.raises(ValueError, match="flag was True when it was exported, now False"):
            module(*other, flag=False, z=torch.ones(8))
        with pytest.raises(ValueError, match=r"x.size\(\)\[1\] was 3 when it was exported, now 4"):
            module(torch.ones(7, 4), 5, torch.ones(9), z=torch.ones(8))
        with pytest.raises(RuntimeError, match=r"not so: L\['named'\]\['z'\].size\(\)\[0\] >= 2, where .* is 1"):
            module(*other, z=torch.ones(1))

    @pytest.mark.parametrize("target", [Options(), Options().method], ids=["object", "method"])
    def test_numbers(self, target: Any) -> None:
        module, _ = framelift.export(target, torch.ones(2), 3, dynamic_shapes={"n": True})
        assert_same(target(torch.ones(2), -7), module(torch.ones(2), -7))
        static, _ = framelift.export(target, torch.ones(2), 3)
        with pytest.raises(ValueError, match="n was 3 when it was exported, now 5"):
            static(torch.ones(2), 5)

    @pytest.mark.parametrize("wrong", [{"x": {5: Dim("n")}}, {"x": (None, None, None)}, {"x": {-3: Dim.AUTO}}])
    def test_dimensions_that_do_not_exist(self, wrong: Any) -> None:
        with pytest.raises(TypeError, match=r"dynamic_shapes speaks of dimension -?\d of x, which has 2"):
            framelift.export(lambda x: x + 1, torch.ones(4, 3), dynamic_shapes=wrong)

    def test_a_number_that_is_not_the_size(self) -> None:
        with pytest.raises(ValueError, match=r"says that x.size\(\)\[1\] is 4, but it is 3"):
            framelift.export(lambda x: x + 1, torch.ones(4, 3), dynamic_shapes={"x": {1: 4}})


class TestWhatElseBecomesOfTheModule:
    """Checks go with it, and do not stand in the way."""

    def test_copies_and_interpreters(self) -> None:
        module, _ = framelift.export(times_size, torch.ones(4))
        for run in (
            copy.deepcopy(module),
            torch.fx.GraphModule(module, module.graph),
            torch.fx.Interpreter(module).run,
        ):
            assert run(torch.ones(4)).sum() == 16
            with pytest.raises(ValueError, match="now 6"):
                run(torch.ones(6))

    def test_transforms(self) -> None:
        module, _ = framelift.export(times_size, torch.ones(4))
        assert torch.vmap(module)(torch.ones(2, 4)).shape == (2, 4)
        with pytest.raises(ValueError, match="now 6"):
            torch.vmap(module)(torch.ones(2, 6))

    def test_traced_with_symbols(self) -> None:
        module, _ = framelift.export(times_size, torch.ones(4), dynamic_shapes={"x": {0: Dim("n")}})
        traced = make_fx(module, tracing_mode="symbolic")(torch.ones(5))
        assert traced(torch.ones(9)).sum() == 81

    def test_symbolic_trace(self) -> None:
        module, _ = framelift.export(lambda x: x * 2, torch.ones(4))
        assert torch.fx.symbolic_trace(module)(torch.ones(4)).sum() == 8

    @pytest.mark.parametrize("shapes", [None, {"x": {0: Dim("n")}}])
    def test_lifted_and_exported_again(self, shapes: Any) -> None:
        module, _ = framelift.export(times_size, torch.ones(4), dynamic_shapes=shapes)
        lifted, record = framelift.compile(module, backend="eager"), Record()
        with record.listening():
            assert lifted(torch.ones(4)).sum() == 16
        assert record.ops >= 1 and not record.failures
        with (
            pytest.raises(ValueError, match="now 6") if shapes is None else pytest.raises(RuntimeError, match="not so")
        ):
            lifted(torch.ones(6 if shapes is None else 1))
        again, _ = framelift.export(module, torch.ones(4))
        assert again(torch.ones(4)).sum() == 16

    def test_nothing_of_the_call_is_kept(self) -> None:
        import gc
        import weakref

        x = torch.ones(4)
        module, guards = framelift.export(times_size, x)
        del guards
        reference = weakref.ref(x)
        del x
        gc.collect()
        assert reference() is None and module(torch.ones(4)).sum() == 16


class TestReasons:
    """What does not fit into one graph is an error that says why."""

    @pytest.mark.parametrize(
        ("fn", "words"),
        [
            (lambda x: x + 1 if x.sum() > 0 else x, "FL0301: the value of a tensor decides"),
            (lambda x: framelift.graph_break() or x, r"FL0103: graph_break\(\) was called"),
            (lambda x: print(x.shape) or x, r"the function changes the world outside \(write\)"),
            (lambda x: GIVEN.append(1) or x, "the function changes .*GIVEN, a list"),
            (lambda x: open("nothing"), "FL0102: a call of io.open is not traced"),
            (lambda x: (y for y in x), "FL0107: generator .* cannot be rebuilt"),
            (lambda x: int("x") + x, "FL0401: the exception ValueError"),
        ],
    )
    def test_reason(self, fn: Any, words: str) -> None:
        with pytest.raises(FullGraphError, match=words):
            framelift.export(fn, torch.ones(2))


GIVEN: list[int] = []
