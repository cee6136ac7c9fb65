"""The graph builder: inputs, effects, taking back, what the finished graph looks like."""

from __future__ import annotations

import operator
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from framelift.graph import GraphBuilder, MetadataFailure, MetadataMemo, TensorRef


def code(builder: GraphBuilder, outputs: list[TensorRef]) -> list[str]:
    """The lines of the finished graph, without what torch.fx adds for memory's sake."""
    module = builder.finish(outputs)
    lines = [line.split(";")[0].strip() for line in module.code.splitlines()]
    return [line for line in lines if line]


def new(**tensors: torch.Tensor) -> tuple[GraphBuilder, list[TensorRef]]:
    builder = GraphBuilder()
    return builder, [builder.add_input(None, tensor, f"L['{name}']") for name, tensor in tensors.items()]


class TestGraph:
    def test_names_come_from_sources_and_operations(self) -> None:
        builder = GraphBuilder()
        x = builder.add_input(None, torch.ones(2, 3), "L['x']")
        w = builder.add_input(None, torch.nn.Parameter(torch.ones(4, 3)), "L['self'].layers[0].weight", "parameter")
        h = builder.call_function(F.linear, (x, w))
        h = builder.call_method("view", (h, 8))
        h = builder.call_function(operator.add, (h, builder.call_function(torch.sum, (h,))))
        h = builder.call_function(operator.add, (h, 1))
        assert code(builder, [h]) == [
            "def forward(self, l_x_, l_self_layers_0_weight):",
            "linear = torch._C._nn.linear(l_x_, l_self_layers_0_weight)",
            "view = linear.view(8)",
            "sum_1 = torch.sum(view)",
            "add = view + sum_1",
            "add_1 = add + 1",
            "return (add_1,)",
        ]

    def test_unused_inputs_and_dead_operations_are_left_out(self) -> None:
        builder, (x, y, z) = new(x=torch.ones(2), y=torch.ones(2), z=torch.ones(2))
        builder.call_function(torch.sin, (x,))
        kept = builder.call_function(torch.cos, (y,))
        assert code(builder, [kept]) == ["def forward(self, l_y_):", "cos = torch.cos(l_y_)", "return (cos,)"]
        assert builder.live_inputs == [y]
        assert builder.example_inputs == [y.example]

    def test_an_operation_that_must_run_stays(self) -> None:
        builder, (x,) = new(x=torch.ones(2, dtype=torch.int64))
        builder.call_function(F.one_hot, (x, 3), must_run=True)
        module = builder.finish([x])
        module.graph.eliminate_dead_code()
        assert [node.name for node in module.graph.nodes] == ["l_x_", "one_hot", "keep", "output"]

    def test_an_input_may_be_returned_as_it_is(self) -> None:
        builder, (x,) = new(x=torch.ones(2))
        assert code(builder, [x, x]) == ["def forward(self, l_x_):", "return (l_x_, l_x_)"]

    def test_results_with_several_tensors(self) -> None:
        builder, (x,) = new(x=torch.arange(6.0).view(2, 3))
        values, indices = builder.call_function(torch.max, (x, 1))
        assert code(builder, [indices]) == [
            "def forward(self, l_x_):",
            "max_1 = torch.max(l_x_, 1)",
            "getitem = max_1[1]",
            "return (getitem,)",
        ]

    def test_struct_sequences_keep_their_type(self) -> None:
        builder, (x,) = new(x=torch.ones(2, 3))
        result = builder.call_function(torch.max, (x, 1))
        assert type(result) is torch.return_types.max
        assert result.values.shape == (2,) and result.indices.dtype is torch.int64
        stacked = builder.call_function(torch.stack, (result,))  # and are taken as tuples
        assert stacked.shape == (2, 2)

    def test_metadata_leaves_no_node(self) -> None:
        builder, (x,) = new(x=torch.ones(2, 3))
        assert builder.call_method("size", (x,)) == torch.Size([2, 3])
        assert type(builder.call_method("size", (x,))) is torch.Size
        assert builder.call_method("dim", (x,)) == 2
        assert builder.call_function(getattr, (x, "dtype")) is torch.float32
        assert builder.records == []

    def test_an_operation_that_returns_its_argument_leaves_no_node(self) -> None:
        builder, (x,) = new(x=torch.ones(2, 3))
        assert builder.call_method("contiguous", (x,)) is x
        assert builder.call_method("to", (x, torch.float32)) is x
        assert builder.call_function(F.dropout, (x, 0.5), {"training": False}) is x
        assert builder.records == []

    def test_nodes_carry_what_backends_look_for(self) -> None:
        class Here:
            def __init__(self) -> None:
                self.asked = 0

            def stack_trace(self) -> str:
                self.asked += 1
                return '  File "model.py", line 3, in forward'

            def module_stack(self) -> dict[str, tuple[str, str]]:
                return {"L['self'].up": ("up", "model.Up")}

        here = Here()
        builder = GraphBuilder(MetadataMemo())
        x = builder.add_input("x", torch.ones(2, 3), "L['x']", "argument")
        first = builder.call_function(torch.max, (x, 1), None, here)
        assert here.asked == 0
        second = builder.call_method("relu", (first[0],), None, here)
        module = builder.finish([second])
        assert here.asked == 1
        for node in module.graph.nodes:
            if node.op.startswith("call"):
                assert node.meta["stack_trace"] == '  File "model.py", line 3, in forward'
                assert node.meta["nn_module_stack"] == {"L['self'].up": ("up", "model.Up")}
                assert node.meta["source_fn_stack"][0][0] == node.name
            if node.op != "output":
                assert "example_value" in node.meta
        relu = next(node for node in module.graph.nodes if node.target == "relu")
        assert tuple(relu.meta["example_value"].shape) == (2,)
        assert module.shape_env is builder.shape_env

    def test_code_is_generated_lazily_and_once(self) -> None:
        builder, (x,) = new(x=torch.ones(2))
        module = builder.finish([builder.call_function(torch.sin, (x,))])
        assert module._needs_recompile()
        module(torch.ones(2))
        assert not module._needs_recompile()

    def test_a_finished_graph_takes_no_more(self) -> None:
        builder, (x,) = new(x=torch.ones(2))
        builder.finish([x])
        with pytest.raises(RuntimeError, match="finished"):
            builder.call_function(torch.sin, (x,))
        with pytest.raises(RuntimeError, match="finished"):
            builder.add_input("y", torch.ones(2))

    def test_names_that_are_taken(self) -> None:
        builder = GraphBuilder()
        x = builder.add_input("add", torch.ones(2))
        y = builder.add_input("class", torch.ones(2))
        z = builder.add_input("3d", torch.ones(2))
        result = builder.call_function(torch.add, (x, y))
        result = builder.call_function(torch.add, (result, z))
        module = builder.finish([result])
        assert torch.equal(module(*[torch.ones(2)] * 3)[0], torch.full((2,), 3.0))

    def test_the_same_program_gives_the_same_graph(self) -> None:
        def build(memo: MetadataMemo | None) -> str:
            builder = GraphBuilder(memo)
            x = builder.add_input("x", torch.ones(4, 4))
            for _ in range(3):
                a, b = builder.call_method("chunk", (x, 2))
                x = builder.call_function(torch.cat, ([b, a],))
                builder.call_method("add_", (x, 1))
            return builder.finish([x]).code

        memo = MetadataMemo()
        assert build(None) == build(memo) == build(memo)


class TestInputs:
    def test_the_same_tensor_is_one_input(self) -> None:
        builder = GraphBuilder()
        tensor = torch.ones(2)
        assert builder.add_input("x", tensor) is builder.add_input("y", tensor)

    def test_aliases_share_a_storage(self) -> None:
        base = torch.ones(6)
        builder, (a, b, c) = new(a=base[:4], b=base[2:], c=torch.ones(6))
        assert a.storage is b.storage is not c.storage
        assert a.fake.untyped_storage()._cdata == b.fake.untyped_storage()._cdata
        assert b.fake.storage_offset() == 2

    def test_an_alias_that_comes_late(self) -> None:
        base = torch.ones(6)
        builder, (x,) = new(x=base)
        builder.call_function(torch.relu, (x,))
        late = builder.add_input("late", base[:4])
        assert builder.call_method("detach", (late,)).storage is late.storage is x.storage
        assert x.fake.untyped_storage()._cdata == late.fake.untyped_storage()._cdata

    @pytest.mark.parametrize(
        "make",
        [
            lambda: torch.ones(2, 3),
            lambda: torch.ones(2, 3, requires_grad=True),
            lambda: torch.nn.Parameter(torch.ones(2, 3)),
            lambda: torch.nn.Parameter(torch.ones(2, 3), requires_grad=False),
            lambda: torch.ones(2, 3, requires_grad=True) * 2,
            lambda: torch.ones(2, 3).t(),
            lambda: torch.ones(8)[2:6:2],
            lambda: (torch.ones(4, requires_grad=True) * 2)[1:],
            lambda: torch.ones(2, dtype=torch.complex64).conj(),
            lambda: torch.ones(2, dtype=torch.complex64).imag,
            lambda: torch.ones(2, dtype=torch.complex64).conj().imag,
            lambda: torch.empty(0, 3),
            lambda: torch.tensor(1.5),
            lambda: torch.ones(1, 3).expand(4, 3),
            lambda: torch.ones(2, dtype=torch.bool),
            lambda: torch.empty_strided((2, 2), (1, 5)),
        ],
    )
    def test_fakes_are_like_the_real_thing(self, make: Any) -> None:
        tensor = make()
        fake = GraphBuilder().add_input("x", tensor).fake
        for fact in ("shape", "dtype", "device", "requires_grad", "is_leaf"):
            assert getattr(fake, fact) == getattr(tensor, fact)
        for fact in ("stride", "storage_offset", "is_conj", "is_neg", "_is_view", "is_inference"):
            assert getattr(fake, fact)() == getattr(tensor, fact)()
        assert isinstance(fake, torch.nn.Parameter) == isinstance(tensor, torch.nn.Parameter)
        assert (fake.grad_fn is None) == (tensor.grad_fn is None)
        assert fake.untyped_storage().nbytes() == tensor.untyped_storage().nbytes()

    def test_inference_tensors(self) -> None:
        with torch.inference_mode():
            tensor = torch.ones(2)
        builder = GraphBuilder()
        x = builder.add_input("x", tensor)
        assert x.fake.is_inference() and not torch.is_inference_mode_enabled()
        with torch.inference_mode():
            assert builder.call_function(torch.sin, (x,)).descriptor.is_inference

    def test_gradients_are_not_followed(self) -> None:
        tensor = torch.ones(2, requires_grad=True)
        tensor.grad = torch.ones(2)
        assert GraphBuilder().add_input("x", tensor).fake.grad is None
        view = (tensor * 2)[:1].detach().requires_grad_()
        view.grad = torch.ones(1)
        assert GraphBuilder().add_input("x", view).fake.grad is None

    def test_the_users_tensors_are_not_touched(self) -> None:
        tensor = torch.ones(2)
        builder = GraphBuilder()
        x = builder.add_input("x", tensor)
        builder.call_method("add_", (x, 1))
        builder.call_method("unsqueeze_", (x, 0))
        builder.call_method("requires_grad_", (x,))
        assert torch.equal(tensor, torch.ones(2)) and tensor._version == 0 and not tensor.requires_grad

    @pytest.mark.parametrize("kind", ["sparse_coo", "sparse_csr", "quantized", "nested"])
    def test_opaque_inputs_are_refused(self, kind: str) -> None:
        tensors = {
            "sparse_coo": torch.eye(3).to_sparse,
            "sparse_csr": torch.eye(3).to_sparse_csr,
            "quantized": lambda: torch.quantize_per_tensor(torch.ones(2), 1.0, 0, torch.qint8),
            "nested": lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
        }
        with pytest.raises(MetadataFailure, match=f"it is a {kind} tensor"):
            new(x=tensors[kind]())

    def test_opaque_results_are_refused(self) -> None:
        builder, (x,) = new(x=torch.ones(2))
        y = builder.call_method("mul", (x, 2))
        with pytest.raises(MetadataFailure, match="sparse_coo") as caught:
            builder.call_method("to_sparse", (y,))
        assert caught.value.kind == "opaque" and y.storage.refs == [y]
        assert builder.call_method("add", (y, 1)).shape == (2,)

    def test_tensors_that_wrap_others(self) -> None:
        from torch.testing._internal.two_tensor import TwoTensor

        with pytest.raises(MetadataFailure, match="TwoTensor is a tensor with behaviour of its own"):
            new(x=TwoTensor(torch.ones(2), torch.zeros(2)))
        builder, (x,) = new(x=torch.ones(2))
        with pytest.raises(MetadataFailure, match="a TwoTensor cannot be a result in a graph") as caught:
            builder.call_function(lambda x: TwoTensor(x, x), (x,))
        assert caught.value.kind == "result"
        assert not builder.records

    def test_subclasses_with_behaviour_of_their_own_are_refused(self) -> None:
        class Loud(torch.Tensor):
            pass

        with pytest.raises(MetadataFailure, match="Loud is a tensor with behaviour of its own"):
            new(x=torch.ones(2).as_subclass(Loud))

    def test_meta_inputs(self) -> None:
        builder, (x,) = new(x=torch.ones(2, device="meta"))
        assert builder.call_function(torch.sin, (x,)).device.type == "meta"


class TestEffects:
    def test_a_write_to_an_input_survives_dead_code_elimination(self) -> None:
        builder, (x,) = new(x=torch.ones(2))
        assert builder.call_method("add_", (x, 1)) is x
        assert builder.mutated == {x}
        module = builder.finish([])
        module.graph.eliminate_dead_code()
        module.recompile()
        tensor = torch.ones(2)
        module(tensor)
        assert torch.equal(tensor, torch.full((2,), 2.0))

    @pytest.mark.parametrize(
        "write",
        [
            lambda b, x: b.call_method("add_", (x, 1)),
            lambda b, x: b.call_method("mul_", (b.call_function(operator.getitem, (x, 0)), 3)),
            lambda b, x: b.call_function(operator.iadd, (x, 1)),
            lambda b, x: b.call_function(operator.setitem, (x, 0, 5.0)),
            lambda b, x: b.call_function(torch.sin, (x,), {"out": x}),
            lambda b, x: b.call_function(F.relu, (b.call_method("sub_", (x, 2)),), {"inplace": True}),
            lambda b, x: b.call_function(torch._foreach_add_, ([x], 1)),
            lambda b, x: b.call_method("add_", (b.call_function(getattr, (x, "data")), 1)),
            lambda b, x: b.call_method("add_", (b.call_method("detach", (x,)), 1)),
            lambda b, x: b.call_function(torch.ops.aten.add_.Tensor, (x, x)),
        ],
    )
    def test_every_way_to_write(self, write: Any) -> None:
        builder, (x,) = new(x=torch.ones(2, 2))
        write(builder, x)
        assert builder.mutated == {x}
        module = builder.finish([])
        module.graph.eliminate_dead_code()
        module.recompile()
        tensor = torch.ones(2, 2)
        module(tensor)
        assert not torch.equal(tensor, torch.ones(2, 2))

    def test_running_statistics_are_written(self) -> None:
        for memo in (None, MetadataMemo()):
            for _ in range(3):
                builder = GraphBuilder(memo)
                x = builder.add_input("x", torch.ones(4, 3))
                mean, var = (builder.add_input(name, torch.ones(3)) for name in ("mean", "var"))
                builder.call_function(F.batch_norm, (x, mean, var), {"training": True})
                assert builder.mutated == {mean, var}
                module = builder.finish([])
                module.graph.eliminate_dead_code()
                assert len(module.graph.find_nodes(op="placeholder")) == 3

    def test_frozen_statistics_are_not(self) -> None:
        builder, (x, mean, var) = new(x=torch.ones(4, 3), mean=torch.ones(3), var=torch.ones(3))
        builder.call_function(F.batch_norm, (x, mean, var), {"training": False})
        assert builder.mutated == set()

    def test_a_write_to_an_alias_of_an_input_is_a_write_to_both(self) -> None:
        base = torch.zeros(6)
        builder, (a, b) = new(a=base[:4], b=base[2:])
        builder.call_method("add_", (a, 1))
        assert builder.mutated == {a, b}

    def test_reads_after_a_write_follow_it(self) -> None:
        builder, (x,) = new(x=torch.ones(2))
        y = builder.call_function(torch.neg, (x,))
        builder.call_method("add_", (y, 1))
        z = builder.call_function(torch.exp, (y,))
        assert code(builder, [z, y]) == [
            "def forward(self, l_x_):",
            "neg = torch.neg(l_x_)",
            "add_ = neg.add_(1)",
            "exp = torch.exp(add_)",
            "return (exp, add_)",
        ]

    def test_a_dead_write_to_a_private_tensor_is_left_out(self) -> None:
        builder, (x,) = new(x=torch.ones(2))
        y = builder.call_function(torch.neg, (x,))
        builder.call_method("add_", (y, 1))
        assert code(builder, [x]) == ["def forward(self, l_x_):", "return (l_x_,)"]

    def test_a_write_through_a_view_reaches_its_base(self) -> None:
        builder, (x,) = new(x=torch.ones(4))
        y = builder.call_function(torch.neg, (x,))
        view = builder.call_function(operator.getitem, (y, slice(2, None)))
        builder.call_method("zero_", (view,))
        module = builder.finish([y])
        module.graph.eliminate_dead_code()
        module.recompile()
        assert torch.equal(module(torch.ones(4))[0], torch.tensor([-1.0, -1.0, 0.0, 0.0]))

    def test_a_write_can_make_aliases_require_grad(self) -> None:
        builder, (x, w) = new(x=torch.zeros(4), w=torch.ones(2, requires_grad=True))
        y = builder.call_method("clone", (x,))
        view = builder.call_function(operator.getitem, (y, slice(2, None)))
        other = builder.call_function(operator.getitem, (y, slice(None, 2)))
        builder.call_method("add_", (view, w))
        assert y.requires_grad and view.requires_grad and other.requires_grad

    def test_random_operations_stay_and_are_known(self) -> None:
        builder, (x,) = new(x=torch.ones(8))
        assert not builder.uses_rng
        builder.call_function(F.dropout, (x, 0.5))
        kept = builder.call_function(torch.sin, (x,))
        assert builder.uses_rng
        module = builder.finish([kept])
        module.graph.eliminate_dead_code()
        module.recompile()
        torch.manual_seed(0)
        F.dropout(torch.ones(8), 0.5)
        expected = torch.get_rng_state()
        torch.manual_seed(0)
        module(torch.ones(8))
        assert torch.equal(torch.get_rng_state(), expected)

    def test_mode_switches_are_not_run_but_stay(self) -> None:
        builder, (x,) = new(x=torch.ones(2, requires_grad=True))
        builder.call_function(torch._C._set_grad_enabled, (False,))
        assert torch.is_grad_enabled()
        with torch.no_grad():
            y = builder.call_function(torch.sin, (x,))
        builder.call_function(torch._C._set_grad_enabled, (True,))
        assert not y.requires_grad
        module = builder.finish([y])
        module.graph.eliminate_dead_code()
        module.recompile()
        assert not module(torch.ones(2, requires_grad=True))[0].requires_grad
        assert torch.is_grad_enabled()

    def test_autocast(self) -> None:
        builder, (x, w) = new(x=torch.ones(2, 3), w=torch.ones(4, 3))
        token = builder.call_function(torch.amp.autocast_mode._enter_autocast, ("cpu", torch.bfloat16, True, False))
        with torch.autocast("cpu", torch.bfloat16):
            y = builder.call_function(F.linear, (x, w))
        builder.call_function(torch.amp.autocast_mode._exit_autocast, (token,))
        z = builder.call_function(F.linear, (x, w))
        assert y.dtype is torch.bfloat16 and z.dtype is torch.float32
        module = builder.finish([y, z])
        module.graph.eliminate_dead_code()
        module.recompile()
        assert [t.dtype for t in module(torch.ones(2, 3), torch.ones(4, 3))] == [torch.bfloat16, torch.float32]
        assert not torch.is_autocast_enabled("cpu")


class TestTakingBack:
    def test_records_since_the_mark_are_gone(self) -> None:
        builder, (x,) = new(x=torch.ones(2))
        y = builder.call_function(torch.sin, (x,))
        mark = builder.mark()
        builder.call_function(torch.cos, (y,))
        builder.call_function(F.dropout, (y,))
        builder.rollback(mark)
        assert not builder.uses_rng
        assert code(builder, [y]) == ["def forward(self, l_x_):", "sin = torch.sin(l_x_)", "return (sin,)"]

    @pytest.mark.parametrize("memo", [None, MetadataMemo()], ids=["run", "memo"])
    def test_writes_are_taken_back(self, memo: MetadataMemo | None) -> None:
        builder = GraphBuilder(memo)
        x = builder.add_input("x", torch.ones(2, 3))
        w = builder.add_input("w", torch.ones(3, requires_grad=True))
        y = builder.call_method("clone", (x,))
        view = builder.call_method("view", (y, 6))
        before = [ref.descriptor for ref in (x, y, view)]
        mark = builder.mark()
        builder.call_method("mul_", (y, w))
        builder.call_method("unsqueeze_", (x, 0))
        assert y.requires_grad and view.requires_grad and x.shape == (1, 2, 3)
        builder.rollback(mark)
        assert [ref.descriptor for ref in (x, y, view)] == before
        assert builder.mutated == set()
        assert not y.fake.requires_grad and not view.fake.requires_grad and x.fake.shape == (2, 3)
        assert view.fake.untyped_storage()._cdata == y.fake.untyped_storage()._cdata
        assert not builder.call_function(torch.sin, (view,)).requires_grad

    def test_earlier_writes_stay(self) -> None:
        builder, (x, w) = new(x=torch.ones(2, 3), w=torch.ones(3, requires_grad=True))
        builder.call_method("add_", (x, w))
        mark = builder.mark()
        builder.call_method("unsqueeze_", (x, 0))
        builder.rollback(mark)
        assert x.requires_grad and builder.mutated == {x}
        assert x.fake.requires_grad and x.fake.shape == (2, 3)

    def test_marks_nest(self) -> None:
        builder, (x,) = new(x=torch.ones(2))
        outer = builder.mark()
        builder.call_method("add_", (x, 1))
        inner = builder.mark()
        builder.call_method("unsqueeze_", (x, 0))
        builder.rollback(inner)
        assert x.shape == (2,) and builder.mutated == {x}
        builder.rollback(outer)
        assert builder.records == [] and builder.mutated == set()

    def test_inputs_added_since_stay_usable(self) -> None:
        builder, (x,) = new(x=torch.ones(2))
        mark = builder.mark()
        y = builder.add_input("y", torch.ones(2))
        builder.call_function(torch.add, (x, y))
        builder.rollback(mark)
        result = builder.call_function(torch.sub, (x, y))
        assert code(builder, [result])[0] == "def forward(self, l_x_, y):"


class TestFailures:
    @pytest.mark.parametrize(
        "call",
        [
            lambda b, x: b.call_method("item", (b.call_method("sum", (x,)),)),
            lambda b, x: b.call_method("tolist", (x,)),
            lambda b, x: b.call_method("__bool__", (b.call_method("any", (x,)),)),
            lambda b, x: b.call_method("__int__", (b.call_method("sum", (x,)),)),
            lambda b, x: b.call_function(bool, (b.call_method("any", (x,)),)),
            lambda b, x: b.call_method("nonzero", (x,)),
            lambda b, x: b.call_function(torch.unique, (x,)),
            lambda b, x: b.call_function(operator.getitem, (x, b.call_function(operator.gt, (x, 0)))),
            lambda b, x: b.call_function(torch.masked_select, (x, b.call_function(operator.gt, (x, 0)))),
            lambda b, x: b.call_function(torch.equal, (x, x)),
            lambda b, x: b.call_function(torch.cov, (x,)),
            lambda b, x: b.call_function(F.gaussian_nll_loss, (x, x, x)),
        ],
    )
    def test_what_depends_on_data(self, call: Any) -> None:
        builder, (x,) = new(x=torch.ones(2, 3))
        with pytest.raises(MetadataFailure) as caught:
            call(builder, x)
        assert caught.value.kind == "data-dependent"
        assert caught.value.__cause__ is not None

    def test_the_programs_own_errors(self, caplog: pytest.LogCaptureFixture) -> None:
        builder, (x,) = new(x=torch.ones(2, 3))
        with pytest.raises(MetadataFailure) as caught:
            builder.call_function(torch.matmul, (x, x))
        assert caught.value.kind == "error" and caught.value.operation == "matmul"
        assert isinstance(caught.value.__cause__, RuntimeError)
        assert builder.records == [] and caplog.records == []

    def test_nothing_is_said_while_building(self, recwarn: pytest.WarningsRecorder) -> None:
        builder, (x,) = new(x=torch.ones(2, 3, 4))
        builder.call_function(torch.nn.functional.softmax, (x,))
        builder.call_function(getattr, (x, "T"))
        assert not recwarn.list

    def test_a_failed_write_leaves_no_trace(self) -> None:
        builder, (x, y) = new(x=torch.ones(2, 3), y=torch.ones(4, requires_grad=True))
        with pytest.raises(MetadataFailure):
            builder.call_method("add_", (x, y))
        assert builder.mutated == set() and not x.requires_grad
        assert builder.call_function(torch.sin, (x,)).shape == (2, 3)

    def test_arguments_a_graph_cannot_hold(self) -> None:
        builder, (x,) = new(x=torch.ones(2))
        for argument in (object(), torch.ones(2), torch.Generator(), {1, 2}):
            with pytest.raises(MetadataFailure) as caught:
                builder.call_function(torch.add, (x, argument))
            assert caught.value.kind == "argument"

    def test_results_a_graph_cannot_hold(self) -> None:
        builder, (x,) = new(x=torch.ones(2))
        with pytest.raises(MetadataFailure) as caught:
            builder.call_method("__iter__", (x,))
        assert caught.value.kind == "result"
        assert builder.records == []

    @pytest.mark.parametrize("name", ["data_ptr", "numpy", "untyped_storage", "is_pinned", "backward"])
    def test_what_only_a_real_tensor_knows(self, name: str) -> None:
        builder, (x,) = new(x=torch.ones(2))
        with pytest.raises(MetadataFailure) as caught:
            builder.call_method(name, (x,))
        assert caught.value.kind == "unsupported"

    @pytest.mark.parametrize("name", ["grad", "grad_fn", "_version", "_base"])
    def test_attributes_only_a_real_tensor_knows(self, name: str) -> None:
        builder, (x,) = new(x=torch.ones(2))
        with pytest.raises(MetadataFailure):
            builder.call_function(getattr, (x, name))

    def test_set_is_refused(self) -> None:
        builder, (x, y) = new(x=torch.ones(2), y=torch.ones(3))
        with pytest.raises(MetadataFailure) as caught:
            builder.call_method("set_", (x, y))
        assert caught.value.kind == "unsupported"
        assert x.shape == (2,) and x.fake.shape == (2,) and builder.records == []

    def test_known_values_are_used(self) -> None:
        builder, _ = new()
        three = builder.call_function(torch.tensor, (3,))
        assert builder.call_method("item", (three,)) == 3
        mark = builder.mark()
        builder.call_method("add_", (three, 1))
        assert builder.call_method("item", (three,)) == 4
        builder.rollback(mark)
        assert builder.call_method("item", (three,)) == 3
        builder.call_method("random_", (three,))
        with pytest.raises(MetadataFailure):
            builder.call_method("item", (three,))
