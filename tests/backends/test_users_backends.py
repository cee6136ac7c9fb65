"""Backends of the user's: what they are given, and that everything they specialise becomes a guard."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import nn
from torch._functorch.aot_autograd import aot_module_simplified, make_boxed_func
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._guards import CompileContext, TracingContext
from torch._subclasses.fake_tensor import FakeTensor
from torch.autograd import forward_ad
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

import framelift
from framelift.backends import lookup
from framelift.errors import BackendError, FullGraphError
from tests.helpers import assert_same
from tests.tolerances import Tolerance, tolerance

Compiler = Callable[..., Any]
SIZES = (5, 6, 7, 8, 1, 0, 9, 2)


def boxed(module: GraphModule, _: Any) -> Any:
    return make_boxed_func(module.forward)


def plain(module: GraphModule, example_inputs: Any) -> Any:
    return module.forward


def simplified(module: GraphModule, example_inputs: Any) -> Any:
    return aot_module_simplified(module, example_inputs, fw_compiler=lambda graph, _: graph.forward)


def simplified_boxed(module: GraphModule, example_inputs: Any) -> Any:
    return aot_module_simplified(module, example_inputs, fw_compiler=boxed, bw_compiler=boxed)


def common(module: GraphModule, example_inputs: Any) -> Any:
    from torch._dynamo.backends.common import aot_autograd

    partition = min_cut_rematerialization_partition
    return aot_autograd(fw_compiler=boxed, bw_compiler=boxed, partition_fn=partition)(module, example_inputs)


def retraced(module: GraphModule, example_inputs: Any) -> Any:
    return make_fx(module, tracing_mode="symbolic")(*example_inputs).forward


def retraced_and_simplified(module: GraphModule, example_inputs: Any) -> Any:
    return simplified(make_fx(module, tracing_mode="symbolic")(*example_inputs), example_inputs)


def copied(module: GraphModule, example_inputs: Any) -> Any:
    return simplified(copy.deepcopy(module), example_inputs)


def cloned(module: GraphModule, example_inputs: Any) -> Any:
    """Tensors that framelift has never seen."""
    return simplified(module, [each.clone() if isinstance(each, torch.Tensor) else each for each in example_inputs])


def handing_on(module: GraphModule, example_inputs: Any) -> Any:
    return lookup("aot_eager")(module, example_inputs)


def handing_on_to_torchs(module: GraphModule, example_inputs: Any) -> Any:
    return torch._dynamo.lookup_backend("aot_eager")(module, example_inputs)


def compile_fx(module: GraphModule, example_inputs: Any) -> Any:
    from torch._inductor.compile_fx import compile_fx

    return compile_fx(module, example_inputs)


class Instance:
    def __call__(self, module: GraphModule, example_inputs: Any) -> Any:
        return simplified_boxed(module, example_inputs)


BACKENDS = [
    plain,
    simplified,
    simplified_boxed,
    common,
    retraced,
    retraced_and_simplified,
    copied,
    cloned,
    handing_on,
    handing_on_to_torchs,
    Instance(),
    functools.partial(aot_module_simplified, fw_compiler=boxed),
    pytest.param(compile_fx, marks=pytest.mark.slow),
]


class Counted:
    """A backend, and how often it was called."""

    def __init__(self, backend: Compiler) -> None:
        self.backend = backend
        self.calls = 0

    def __call__(self, module: GraphModule, example_inputs: Any) -> Any:
        self.calls += 1
        return self.backend(module, example_inputs)


def results(function: Callable[..., Any], arguments: Sequence[Any]) -> list[Any]:
    """What a call gives, does to its arguments, and has for gradients."""
    given = [copy.deepcopy(each) for each in arguments]
    result = function(*given)
    if isinstance(result, torch.Tensor) and result.requires_grad:
        result.sum().backward()
    return [result, given, [each.grad for each in given if isinstance(each, torch.Tensor)]]


def captures(function: Callable[..., Any], backend: Compiler, calls: Sequence[Sequence[Any]], **options: Any) -> int:
    """How often a backend is called in these calls, which give what eager mode gives."""
    counted = Counted(backend)
    lifted = framelift.compile(function, backend=counted, **options)
    for arguments in calls:
        assert_same(results(function, arguments), results(lifted, arguments), limits(backend))
    assert not framelift.counters().failures
    return counted.calls


def limits(backend: Compiler) -> Callable[[torch.dtype], Tolerance]:
    return functools.partial(tolerance, "inductor" if backend is compile_fx else "aot_eager")


def rows(count: int, requires_grad: bool = False) -> torch.Tensor:
    return (torch.arange(3.0 * count).reshape(count, 3) + 1).requires_grad_(requires_grad)


# -- what changes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
class TestWhatChanges:
    """Sizes 5, 6, 7, 8, 1, 0, ...: a capture for 5, one for all others, and one each for 1 and 0."""

    def test_a_size(self, backend: Compiler) -> None:
        calls = [(rows(n),) for n in SIZES]
        assert captures(lambda x: x.sum() * 0 + x.shape[0], backend, calls) == 4

    def test_a_size_from_the_first_call_on(self, backend: Compiler) -> None:
        calls = [(rows(n),) for n in SIZES]
        assert captures(lambda x: x.sum() * 0 + x.shape[0], backend, calls, dynamic=True) == 3

    def test_an_int(self, backend: Compiler) -> None:
        calls = [(rows(2), n) for n in SIZES]
        assert captures(lambda x, i: torch.add(x, x, alpha=i), backend, calls) == 2
        assert captures(lambda x, i: torch.add(x, x, alpha=i), backend, calls, dynamic=True) == 1

    def test_a_float(self, backend: Compiler) -> None:
        calls = [(rows(2), n + 0.5) for n in SIZES]
        assert captures(lambda x, scale: x * scale + scale, backend, calls) == 2

    def test_a_float_at_which_ints_are_clamped(self, backend: Compiler) -> None:
        calls = [(rows(2).long(), n + 0.5) for n in SIZES]
        assert captures(lambda x, least: x.clamp(min=least), backend, calls) == 2

    def test_a_bool(self, backend: Compiler) -> None:
        calls = [(rows(n), n % 2 == 0) for n in (5, 6, 7, 8)]
        assert captures(lambda x, flag: x * 2 if flag else x + x.shape[0], backend, calls) <= 4

    def test_training(self, backend: Compiler) -> None:
        calls = [(rows(n, requires_grad=True), n + 0.5) for n in SIZES]
        assert captures(lambda x, scale: (x * scale).reshape(-1).sin() * x.numel(), backend, calls) == 4

    def test_sizes_that_are_tied(self, backend: Compiler) -> None:
        calls = [(rows(n), rows(n) * 2) for n in SIZES]
        for dynamic, expected in ((None, 4), (True, 3)):
            function = lambda x, y: x.sum(1) * y.sum(1) + x.shape[0]  # noqa: E731
            assert captures(function, backend, calls, dynamic=dynamic) == expected

    def test_what_operations_assume(self, backend: Compiler) -> None:
        """Halves of an even number of rows, and a size computed from another."""
        calls = [(rows(n),) for n in SIZES]
        captures(lambda x: x.reshape(2, -1) if x.shape[0] % 2 == 0 else x.new_zeros(x.shape[0] + 1), backend, calls)

    def test_writes_to_the_input(self, backend: Compiler) -> None:
        calls = [(rows(n),) for n in SIZES]
        assert captures(lambda x: x.add_(x.shape[0]) * 2, backend, calls) == 4

    def test_dtypes(self, backend: Compiler) -> None:
        calls = [(rows(n).to(dtype), rows(n)) for dtype in (torch.int32, torch.float64) for n in (5, 6, 7, 8)]
        captures(lambda x, y: x * y + x.shape[0], backend, calls)

    def test_a_module(self, backend: Compiler) -> None:
        model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh()).double()
        twin = copy.deepcopy(model)
        counted = Counted(backend)
        lifted = framelift.compile(model, backend=counted)
        for n in (5, 6, 7, 8):
            for each in (twin, lifted):
                each(rows(n).double()).sum().backward()
        gradients = [[parameter.grad for parameter in each.parameters()] for each in (twin, model)]
        states = [[*each.state_dict().values()] for each in (twin, model)]
        assert_same(*gradients, limits(backend))
        assert_same(*states, limits(backend))
        assert counted.calls == 2

    def test_sizes_that_depend_on_data(self, backend: Compiler) -> None:
        calls = [(rows(n),) for n in SIZES]
        captures(lambda x: (y := x[x > 2]).sum() * 0 + y.shape[0], backend, calls)

    def test_marked_sizes(self, backend: Compiler) -> None:
        counted = Counted(backend)
        function = lambda x: x * x.shape[0]  # noqa: E731
        lifted = framelift.compile(function, backend=counted)
        for n in (5, 6, 7, 8):
            x = rows(n)
            torch._dynamo.maybe_mark_dynamic(x, 0)
            assert_same(function(x), lifted(x), limits(backend))
        assert counted.calls == 1


# -- what is specialised -----------------------------------------------------------------------------------------------


def specialised(read: Callable[[GraphModule, Sequence[Any]], Any]) -> Compiler:
    """A backend whose code holds for what it has read only."""

    def backend(module: GraphModule, example_inputs: Sequence[Any]) -> Any:
        found = read(module, example_inputs)

        def run(*inputs: Any) -> Any:
            (result,) = module.forward(*inputs)
            return (result * 0 + found,)

        return run

    return backend


def the_tensor(inputs: Sequence[Any]) -> torch.Tensor:
    (found,) = (each for each in inputs if isinstance(each, torch.Tensor))
    return found


def value_in(module: GraphModule) -> torch.Tensor:
    return the_tensor([node.meta["example_value"] for node in module.graph.find_nodes(op="placeholder")])


READERS: dict[str, Callable[[GraphModule, Sequence[Any]], Any]] = {
    "size": lambda _, inputs: int(the_tensor(inputs).size(0)),
    "shape": lambda _, inputs: int(the_tensor(inputs).shape[0]),
    "all of them": lambda _, inputs: [*map(int, the_tensor(inputs).shape)][0],
    "len": lambda _, inputs: len(the_tensor(inputs)),
    "numel": lambda _, inputs: int(torch.numel(the_tensor(inputs))) // 3,
    "compared": lambda _, inputs: next(n for n in range(1, 99) if the_tensor(inputs).shape[0] == n),
    "number": lambda _, inputs: int(next((each for each in inputs if type(each) is torch.SymInt), 5)),
    "meta": lambda module, _: int(value_in(module).shape[0]),
    "fake": lambda _, inputs: int(TracingContext.get().fake_mode.from_tensor(the_tensor(inputs)).shape[0]),
}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_what_is_read_is_guarded(read: Callable[..., Any]) -> None:
    calls = [(rows(n),) for n in (5, 6, 7, 8, 6, 5)]
    assert captures(lambda x: x.sum() * 0 + x.shape[0], specialised(read), calls) == 4


def test_a_branch_is_guarded_as_it_was_taken() -> None:
    read = lambda _, inputs: 1.0 if the_tensor(inputs).shape[0] > 6 else 0.0  # noqa: E731
    counted = Counted(specialised(read))
    lifted = framelift.compile(lambda x: x.sum() + x.shape[0], backend=counted)
    assert [lifted(rows(n)).item() for n in (4, 5, 6, 7, 8, 9, 3, 11)] == [0, 0, 0, 1, 1, 1, 0, 1]
    assert counted.calls == 3


def test_what_is_only_shown_is_not_guarded() -> None:
    shown: list[str] = []

    def backend(module: GraphModule, example_inputs: Any) -> Any:
        shown.append(str([each.shape for each in example_inputs if isinstance(each, torch.Tensor)]))
        return module.forward

    assert captures(lambda x: x + x.shape[0], backend, [(rows(n),) for n in (5, 6, 7, 8)]) == 2
    assert shown[0] == "[torch.Size([5, 3])]" and "5" not in shown[1] and "6" not in shown[1]


def test_an_int_that_is_specialised() -> None:
    def backend(module: GraphModule, example_inputs: Any) -> Any:
        numbers = [int(each) for each in example_inputs if not isinstance(each, torch.Tensor)]
        return lambda *inputs: module.forward(*[numbers[0] if type(each) is int else each for each in inputs])

    calls = [(rows(2), n) for n in (3, 4, 5, 6, 4)]
    assert captures(lambda x, i: torch.add(x, x, alpha=i), backend, calls) == 4


def test_what_is_presumed_about_data_is_checked_or_not_presumed() -> None:
    """Traced once more, the graph is taken for one in which `u0` is not 4, which no check of the graph says."""

    def backend(module: GraphModule, example_inputs: Any) -> Any:
        env = module.shape_env
        for symbol in list(env.var_to_range):
            if str(symbol).startswith("u"):
                env.guard_or_defer_runtime_assert(symbol > 3, "so that there are four")
        return module.forward

    def function(x: torch.Tensor) -> torch.Tensor:
        return x[x > 2] * 2

    captures(function, backend, [(rows(n),) for n in (5, 6, 2, 1)])
    with pytest.raises(FullGraphError):
        framelift.compile(function, backend=backend, fullgraph=True)(rows(5))


NEED_NUMBERS: dict[str, Compiler] = {
    "hash": lambda module, inputs: module.forward if {tuple(the_tensor(inputs).shape)} else None,
    "attribute": lambda module, inputs: module.forward if [each.shape for each in inputs] else None,
    "format": lambda module, inputs: module.forward if f"{the_tensor(inputs).shape[0]:4d}" else None,
}


@pytest.mark.parametrize("backend", NEED_NUMBERS.values(), ids=NEED_NUMBERS)
def test_a_backend_that_takes_no_symbols_is_given_numbers(backend: Compiler) -> None:
    calls = [(rows(n),) for n in (5, 6, 7, 6)]
    assert captures(lambda x: x + x.shape[0], backend, calls) == 4, "one that raised"
    calls = [(rows(n), n) for n in (5, 6, 7, 6)]
    captures(lambda x, i: torch.add(x, x, alpha=i), backend, calls)


# -- what is given -----------------------------------------------------------------------------------------------------


class Recorded:
    """Keeps what it is given."""

    def __init__(self) -> None:
        self.modules: list[GraphModule] = []
        self.inputs: list[Any] = []
        self.contexts: list[Any] = []
        self.keywords: dict[str, Any] = {}

    def __call__(self, module: GraphModule, example_inputs: Any, **keywords: Any) -> Any:
        self.modules.append(module)
        self.inputs.append(example_inputs)
        self.contexts.append((TracingContext.try_get(), CompileContext.try_get()))
        self.keywords = keywords
        return module.forward

    def kinds(self, index: int) -> list[type]:
        return [type(each) for each in self.inputs[index]]


def given(function: Callable[..., Any], *calls: tuple[Any, ...], **options: Any) -> Recorded:
    recorded = Recorded()
    lifted = framelift.compile(function, backend=recorded, **options)
    for arguments in calls:
        lifted(*arguments)
    return recorded


class TestWhatIsGiven:
    def test_real_tensors_and_symbols(self) -> None:
        """As torch.compile does it: the size stands before the tensor that has it."""
        function = lambda x, scale, i: torch.add(x, x, alpha=i) * scale  # noqa: E731
        recorded = given(function, *[(rows(n), n + 0.5, n) for n in (5, 6, 7)])
        assert recorded.kinds(0) == [torch.Tensor]
        assert recorded.kinds(1) == [torch.SymInt, torch.Tensor, torch.SymInt, torch.Tensor]
        size, x, i, scale = recorded.inputs[1]
        assert type(recorded.inputs[1]) is list and len(recorded.inputs) == 2
        assert (x.shape, scale.item(), scale.dtype) == ((6, 3), 6.5, torch.float64)
        env = recorded.modules[1].shape_env
        assert size.node.shape_env is env is i.node.shape_env and env.frozen

    def test_a_size_is_given_even_if_only_the_tensor_needs_it(self) -> None:
        assert given(lambda x: x * 2, (rows(5),), dynamic=True).kinds(0) == [torch.SymInt, torch.SymInt, torch.Tensor]

    def test_a_size_of_several_tensors_is_given_once(self) -> None:
        recorded = given(lambda x, y: x.sum(1) + y, (rows(5), torch.ones(5)), dynamic=True)
        assert recorded.kinds(0) == [torch.SymInt, torch.SymInt, torch.Tensor, torch.Tensor]

    def test_parameters_are_themselves(self) -> None:
        model = nn.Linear(3, 4)
        recorded = given(model, (rows(5),), (rows(6),))
        assert [each for each in recorded.inputs[1] if type(each) is nn.Parameter] == [model.weight, model.bias]

    def test_names_do_not_clash(self) -> None:
        """An argument that is called as torch calls the symbol."""
        symbol = str(given(lambda x: x * 2, (rows(5),), (rows(6),)).inputs[1][0])
        scope: dict[str, Any] = {}
        exec(f"def function({symbol}, x): return x * {symbol}", scope)
        assert captures(scope["function"], plain, [(torch.tensor(2.0), rows(n)) for n in (5, 6, 7)]) == 2

    def test_the_tracing_context(self) -> None:
        recorded = given(lambda x: x * 2, (rows(5),), (rows(6),))
        for (context, compilation), module in zip(recorded.contexts, recorded.modules, strict=True):
            assert context.fake_mode.shape_env is module.shape_env
            assert compilation.compile_id == module.meta["dynamo_compile_id"]
        assert TracingContext.try_get() is None

    def test_metadata(self) -> None:
        model = nn.Linear(3, 4)
        recorded = given(lambda x, scale: model(x) * scale, (rows(5), 1.5), (rows(6), 2.5))
        module = recorded.modules[1]
        assert module._param_name_to_source == {}
        inputs = module.graph.find_nodes(op="placeholder")
        assert len({node._dynamo_source.name for node in inputs}) == len(inputs) == 5
        for node, value in zip(inputs, recorded.inputs[1], strict=True):
            kind = FakeTensor if isinstance(value, torch.Tensor) else torch.SymInt
            assert isinstance(node.meta["example_value"], kind)
            assert ("tensor_dict" in node.meta) == isinstance(value, torch.Tensor)
        fakes = [node.meta["example_value"] for node in module.graph.nodes if "example_value" in node.meta]
        assert len({each.fake_mode for each in fakes if isinstance(each, FakeTensor)}) == 1

    def test_why_the_graph_ends(self) -> None:
        def function(x: torch.Tensor) -> torch.Tensor:
            y = x + 1
            framelift.graph_break()
            return y * 2

        first, second = [module.compile_subgraph_reason for module in given(function, (rows(5),)).modules]
        assert first.graph_break and first.user_stack[-1].name.endswith("function") and "graph_break" in first.reason
        assert not second.graph_break

    def test_the_default_mode_is_not_worth_mentioning(self) -> None:
        assert given(lambda x: x * 2, (rows(5),), mode="default").keywords == {}
        assert given(lambda x: x * 2, (rows(5),), mode="max-autotune").keywords == {"mode": "max-autotune"}
        assert given(lambda x: x * 2, (rows(5),), options={"a": 1}).keywords == {"options": {"a": 1}}

    def test_graph_modules_of_users(self) -> None:
        """`lookup(name)` compiles any graph: nothing was captured, so nothing is symbolic."""
        module = torch.fx.symbolic_trace(lambda x, scale: (x.sin() * scale,))
        for name in ("eager", "aot_eager"):
            compiled = lookup(name)(copy.deepcopy(module), [rows(5), 0.5])
            assert_same(rows(5).sin() * 2.5, compiled(rows(5), 2.5)[0])


def test_a_backend_that_calls_lifted_code() -> None:
    """It is captured on its own, with a context of its own."""
    inner = framelift.compile(lambda x: x * x.shape[0], backend="aot_eager")

    def backend(module: GraphModule, example_inputs: Any) -> Any:
        before = TracingContext.try_get()
        assert inner(torch.ones(4)).tolist() == [4.0] * 4
        assert TracingContext.try_get() is before
        return simplified(module, example_inputs)

    assert captures(lambda x: x.sum() * 0 + x.shape[0], backend, [(rows(n),) for n in (5, 6, 7)]) == 2


def test_inputs_that_share_memory_are_derived_by_autograd() -> None:
    """Whatever the backend does with derivatives."""

    def function(base: torch.Tensor, part: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        y = (base * w).sum()
        part.mul_(2)
        return y + (base * w).sum()

    def run(each: Callable[..., Any]) -> list[Any]:
        base, w = torch.arange(4.0), torch.ones(4, requires_grad=True)
        result = each(base, base[1:], w)
        try:
            result.backward()
        except RuntimeError as error:
            return [str(error).partition(":")[0]]
        return [result.detach(), w.grad, base]

    assert_same(run(function), run(framelift.compile(function, backend=simplified_boxed)))


# -- what goes wrong ---------------------------------------------------------------------------------------------------


class Boom(Exception):
    pass


@pytest.mark.parametrize(
    "error", [Boom("no"), MemoryError("full"), torch.OutOfMemoryError("full"), KeyboardInterrupt()]
)
@pytest.mark.parametrize("backend", [plain, simplified_boxed])
def test_older_entries_stay(backend: Compiler, error: BaseException) -> None:
    """A backend that raises in the middle of a recompile: calls that fit an entry are as before, others try again."""
    raising: list[bool] = []

    def raises(module: GraphModule, example_inputs: Any) -> Any:
        compiled = backend(module, example_inputs)
        if any(raising):
            raise error
        return compiled

    counted = Counted(raises)
    lifted = framelift.compile(lambda x: x * x.shape[0], backend=counted)
    known = [rows(5), rows(5).double()]
    for x in known:
        assert_same(x * 5, lifted(x))
    raising.append(True)
    for n in (6, 7):
        with pytest.raises((BackendError, type(error))):
            lifted(rows(n))
        for x in known:
            assert_same(x * 5, lifted(x))
    calls = counted.calls
    raising.clear()
    for n in (6, 7, 8):
        assert_same(rows(n) * n, lifted(rows(n)))
    assert counted.calls == calls + 1, "one entry is for all of them"
    assert TracingContext.try_get() is None


def test_no_entry_makes_room_for_one_that_fails() -> None:
    raising: list[bool] = []

    def backend(module: GraphModule, example_inputs: Any) -> Any:
        if any(raising):
            raise torch.OutOfMemoryError("full")
        return module.forward

    counted = Counted(backend)
    lifted = framelift.compile(lambda x: x * 2, backend=counted, dynamic=False)
    with framelift.config.patch(recompile_limit=2, evict_entries=True):
        for n in (5, 6):
            lifted(rows(n))
        raising.append(True)
        for n in (7, 8, 9):
            with pytest.raises(BackendError):
                lifted(rows(n))
        for n in (5, 6, 5):
            assert_same(rows(n) * 2, lifted(rows(n)))
        raising.clear()
        lifted(rows(7))
        calls = counted.calls
        lifted(rows(5))
        assert counted.calls == calls, "the one that was used last is still there"


def test_a_part_that_fails_leaves_the_others() -> None:
    """The backend fails for what follows a graph break: older entries of both parts are as before."""
    raising: list[bool] = []

    def backend(module: GraphModule, example_inputs: Any) -> Any:
        if any(raising) and not module.compile_subgraph_reason.graph_break:
            raise MemoryError("full")
        return module.forward

    steps: list[int] = []

    def function(x: torch.Tensor) -> torch.Tensor:
        y = x + x.shape[0]
        steps.append(1)
        framelift.graph_break()
        steps.append(2)
        return y * x.shape[0]

    lifted = framelift.compile(function, backend=backend)
    expected = {n: function(rows(n)) for n in (5, 6, 7)}
    lifted(rows(5))
    raising.append(True)
    steps.clear()
    for _ in range(3):
        with pytest.raises((BackendError, MemoryError)):
            lifted(rows(6))
        assert_same(expected[5], lifted(rows(5)))
    assert steps == [1, 1, 2] * 3
    raising.clear()
    for n in (6, 7, 5):
        assert_same(expected[n], lifted(rows(n)))


def questions(x: torch.Tensor) -> Any:
    part = x[1:] * 2
    return x * x.numel(), part.numel() * x, part.stride(0) + part.t().stride(1) * x.sum(), part.nelement()


def test_a_trace_with_real_tensors_holds_for_all_sizes() -> None:
    """What the program asks about layouts is computed from the sizes, which such a trace keeps as symbols."""
    lifted = framelift.compile(
        questions, backend=lambda module, inputs: make_fx(module, tracing_mode="real")(*inputs).forward, dynamic=True
    )
    for rows, columns in ((5, 3), (6, 3), (7, 4), (9, 2)):
        x = torch.arange(float(rows * columns)).view(rows, columns)
        for expected, found in zip(questions(x), lifted(x), strict=True):
            assert torch.equal(torch.as_tensor(expected), torch.as_tensor(found))


def drawing_for_nobody(x: torch.Tensor, scale: float) -> torch.Tensor:
    torch.rand_like(x)
    nn.functional.dropout(x, 0.5)
    torch.empty(3).uniform_()
    torch.empty_like(x).copy_(x).random_(5)
    torch.ops.aten.native_dropout(x, 0.5, True)
    return x * scale


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("backend", ["eager", "aot_eager", simplified, common, plain])
def test_numbers_drawn_for_nobody_are_drawn(backend: Any, requires_grad: bool) -> None:
    """AOTAutograd leaves out what has no use; the numbers drawn next would be others."""
    lifted = framelift.compile(drawing_for_nobody, backend=backend, fullgraph=True)
    for scale in (1.0, 2.0, 3.0):
        x = rows(5).float().requires_grad_(requires_grad)
        torch.manual_seed(3)
        expected = drawing_for_nobody(x, scale)
        state = torch.get_rng_state()
        torch.manual_seed(3)
        found = lifted(x, scale)
        assert torch.equal(state, torch.get_rng_state())
        assert_same(expected, found)


def of_a_saved_tensor(weight: torch.Tensor, saved: torch.Tensor, write: Callable[[torch.Tensor], Any]) -> Any:
    product = (weight * saved).sum()
    framelift.graph_break()
    write(saved)
    framelift.graph_break()
    product.backward()
    return weight.grad


@pytest.mark.parametrize("backend", ["eager", "aot_eager", simplified, common])
@pytest.mark.parametrize(
    "write",
    [
        lambda saved: saved.data.fill_(7),
        lambda saved: saved.data.view(-1)[1:].mul_(3),
        lambda saved: saved.view(-1).data.add_(saved),
        lambda saved: saved.data.__setitem__(0, 5.0),
    ],
)
def test_a_write_by_way_of_data_is_not_counted(write: Callable[[torch.Tensor], Any], backend: Any) -> None:
    expected, found = [
        function(torch.ones(3, requires_grad=True), torch.full((3,), 2.0), write)
        for function in (of_a_saved_tensor, framelift.compile(of_a_saved_tensor, backend=backend))
    ]
    assert_same(expected, found)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", simplified, common])
@pytest.mark.parametrize(
    "write",
    [
        lambda saved: saved.fill_(7),
        lambda saved: saved.detach().fill_(7),
        lambda saved: saved.data.fill_(saved.add_(1).sum()),
    ],
)
def test_other_writes_are_counted(write: Callable[[torch.Tensor], Any], backend: Any) -> None:
    for function in (of_a_saved_tensor, framelift.compile(of_a_saved_tensor, backend=backend)):
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            function(torch.ones(3, requires_grad=True), torch.full((3,), 2.0), write)


WRITES: list[Callable[[torch.Tensor, torch.Tensor], Any]] = [
    lambda made, other: made.view(-1)[:4].add_(other.view(-1)[2:]),
    lambda made, other: made.transpose(0, 1)[0].mul_(2),
    lambda made, other: made.view(3, 2).__setitem__(0, other.view(3, 2)[0]),
    lambda made, other: made[0].fill_(3),
]


@pytest.mark.parametrize("backend", ["eager", "aot_eager", simplified, common])
@pytest.mark.parametrize("write", WRITES)
def test_what_is_written_as_a_view_may_be_written_to(write: Callable[..., Any], backend: Any) -> None:
    """AOTAutograd makes a view of it, to which autograd lets nobody write."""

    def program(x: torch.Tensor, other: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        made = x @ weight + 1
        write(made, other)
        framelift.graph_break()
        made *= 3
        return made

    def beside_a_view(x: torch.Tensor, other: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        made = x @ weight + 1
        write(made, other)
        view = made.view(-1)
        framelift.graph_break()
        made *= 3
        return made + view[0]

    def gradients(function: Callable[..., Any]) -> Any:
        weight = torch.full((3, 3), 0.5, requires_grad=True)
        result = function(rows(2)[:, :1].float().expand(2, 3).contiguous(), torch.ones(2, 3), weight)
        result.sum().backward()
        return result, weight.grad

    for each in (program, beside_a_view):
        expected, found = gradients(each), gradients(framelift.compile(each, backend=backend))
        assert torch.equal(expected[0], found[0])
        assert_same(expected[1], found[1])


def tangent_of(function: Callable[..., Any], x: torch.Tensor) -> Any:
    with forward_ad.dual_level():
        return forward_ad.unpack_dual(function(forward_ad.make_dual(x, x * 3))).tangent


@pytest.mark.parametrize("is_warm", [False, True])
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor", simplified, compile_fx])
def test_tangents_of_forward_mode(backend: Any, is_warm: bool) -> None:
    """What a compiler made of the graph drops them."""

    def program(x: torch.Tensor) -> torch.Tensor:
        return x.sin() * 2

    lifted = framelift.compile(program, backend=backend)
    if is_warm:
        torch.testing.assert_close(lifted(rows(2)), program(rows(2)))
    assert_same(tangent_of(program, rows(2)), tangent_of(lifted, rows(2)))
    torch.testing.assert_close(lifted(rows(2)), program(rows(2)))


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor", simplified])
def test_tangents_within_lifted_code(backend: Any) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return tangent_of(torch.sin, x) + 1

    assert_same(program(rows(2)), framelift.compile(program, backend=backend)(rows(2)))
