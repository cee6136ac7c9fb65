"""The metadata memo: what is looked up, what is told apart, what is never entered."""

from __future__ import annotations

import functools
import operator
import time
import zlib
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from framelift.graph import GraphBuilder, MemoMismatch, MetadataMemo, TensorRef
from framelift.graph.propagation.memo import is_fixed


def call(memo: MetadataMemo, target: Any, *args: Any, **kwargs: Any) -> Any:
    """One operation in a graph of its own; tensors among the arguments become inputs."""
    return call_in(GraphBuilder(memo), target, *args, **kwargs)


def call_checked(memo: MetadataMemo, target: Any, *args: Any, **kwargs: Any) -> Any:
    """The same where all that the memo knows is run again and compared."""
    return call_in(GraphBuilder(memo, checks_memo=True), target, *args, **kwargs)


def call_in(builder: GraphBuilder, target: Any, *args: Any, **kwargs: Any) -> Any:
    """One operation in a graph; tensors among the arguments become inputs."""

    def enter(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return builder.add_input(None, value, "L['x']")
        if isinstance(value, list | tuple):
            return type(value)([enter(item) for item in value])
        return value

    entered = tuple([enter(arg) for arg in args])
    keywords = {name: enter(value) for name, value in kwargs.items()}
    if isinstance(target, str):
        return builder.call_method(target, entered, keywords)
    return builder.call_function(target, entered, keywords)


def told_apart(*calls: Any) -> bool:
    """Whether the memo has an entry of its own for each of these calls, each the same the second time."""
    memo = MetadataMemo()
    first = [one(memo) for one in calls]
    assert memo.hits == 0, "one answered for another"
    second = [one(memo) for one in calls]
    for a, b in zip(first, second, strict=True):
        if isinstance(a, TensorRef):
            assert a.descriptor is b.descriptor
    return memo.hits == len(calls)


X = torch.ones(4, 6)


class TestWhatIsToldApart:
    def test_types_of_constants(self) -> None:
        ints = torch.ones(3, dtype=torch.int64)
        assert told_apart(
            lambda m: call(m, torch.add, ints, 1),
            lambda m: call(m, torch.add, ints, 1.0),
            lambda m: call(m, torch.add, ints, True),
            lambda m: call(m, torch.add, ints, 1 + 0j),
        )

    def test_signs_of_zero(self) -> None:
        assert told_apart(
            lambda m: call(m, torch.tensor, 0.0),
            lambda m: call(m, torch.tensor, -0.0),
            lambda m: call(m, torch.tensor, float("nan")),
            lambda m: call(m, torch.tensor, complex(0.0, -0.0)),
            lambda m: call(m, torch.tensor, complex(0.0, 0.0)),
        )

    def test_values_of_constants(self) -> None:
        def of_constant(memo: MetadataMemo, value: Any, *target: Any) -> Any:
            builder = GraphBuilder(memo)
            constant = builder.call_function(torch.tensor, (value,))
            result = builder.call_function(target[0], (constant, *target[1:]))
            return builder.call_function(operator.getitem, (builder.add_input(None, X, "L['x']"), result))

        memo = MetadataMemo()
        for _ in range(2):
            shapes = [of_constant(memo, value, torch.add, 1).shape for value in (0, 1, 2)]
            assert shapes == [torch.Size([6])] * 3
        assert memo.misses == memo.hits == 9

    def test_constants_that_were_written_to(self) -> None:
        for checks_memo in (False, True):
            memo = MetadataMemo()
            for _ in range(2):
                builder = GraphBuilder(memo, checks_memo)
                constant = builder.call_function(torch.tensor, (1.0,))
                seen = [builder.call_method("item", (constant,))]
                for value in (2.0, -0.0):
                    builder.call_method("fill_", (constant, value))
                    seen.append(builder.call_method("item", (constant,)))
                assert list(map(repr, seen)) == ["1.0", "2.0", "-0.0"]

    def test_a_constant_without_elements(self) -> None:
        memo = MetadataMemo()
        for _ in range(2):
            builder = GraphBuilder(memo, checks_memo=True)
            empty = builder.call_function(torch.tensor, ([],))
            x = builder.add_input(None, X, "L['x']")
            both = builder.call_function(torch.cat, ([empty, x],))
            assert both.shape == X.shape
            assert builder.finish([both])(X)[0].equal(X)
        assert memo.hits == 2

    def test_containers(self) -> None:
        assert told_apart(
            lambda m: call(m, operator.getitem, X, (0, 1)),
            lambda m: call(m, operator.getitem, X, [0, 1]),
            lambda m: call(m, operator.getitem, X, 0),
            lambda m: call(m, operator.getitem, X, slice(0, 1)),
            lambda m: call(m, operator.getitem, X, (slice(0, 1),)),
            lambda m: call(m, operator.getitem, X, (slice(0, None), 1)),
            lambda m: call(m, operator.getitem, X, slice(None, 0, 1)),
        )

    def test_keywords(self) -> None:
        assert told_apart(
            lambda m: call(m, torch.sum, X, dim=0),
            lambda m: call(m, torch.sum, X, dim=1),
            lambda m: call(m, torch.sum, X, dim=0, keepdim=True),
            lambda m: call(m, torch.sum, X, 0),
        )

    def test_metadata(self) -> None:
        leaf = torch.ones(4, 6, requires_grad=True)
        assert told_apart(
            lambda m: call(m, torch.relu, X),
            lambda m: call(m, torch.relu, torch.ones(6, 4).t()),
            lambda m: call(m, torch.relu, torch.ones(4, 12)[:, ::2]),
            lambda m: call(m, torch.relu, torch.ones(5, 6)[1:]),
            lambda m: call(m, torch.relu, leaf),
            lambda m: call(m, torch.relu, leaf * 2),
            lambda m: call(m, torch.relu, torch.nn.Parameter(X.clone())),
            lambda m: call(m, torch.relu, X.double()),
            lambda m: call(m, torch.relu, torch.ones(4, 6, dtype=torch.int32)),
        )

    def test_sharing(self) -> None:
        base = torch.ones(8, 6)
        same = torch.ones(4, 6)
        one, other = base[:4], base[:4]
        apart = torch.ones(8, 6)[:4]
        assert told_apart(
            lambda m: call(m, torch.add, same, same),
            lambda m: call(m, torch.add, same, X),
            lambda m: call(m, torch.add, one, other),
            lambda m: call(m, torch.add, one, apart),
            lambda m: call(m, torch.add, one, one),
        )

    @pytest.mark.parametrize(
        "mode",
        [
            lambda: torch.no_grad(),
            lambda: torch.inference_mode(),
            lambda: torch.autocast("cpu", torch.bfloat16),
            lambda: torch.autocast("cpu", torch.float16),
            lambda: torch.device("meta"),
            lambda: sdpa_kernel(SDPBackend.MATH),
        ],
        ids=["no_grad", "inference", "autocast", "autocast16", "device", "sdpa"],
    )
    def test_modes(self, mode: Any) -> None:
        w = torch.ones(5, 6, requires_grad=True)

        def inside(memo: MetadataMemo) -> Any:
            with mode():
                return call(memo, F.linear, X, w)

        assert told_apart(lambda m: call(m, F.linear, X, w), inside)

    def test_default_dtype(self) -> None:
        def inside(memo: MetadataMemo) -> Any:
            torch.set_default_dtype(torch.float64)
            try:
                return call(memo, torch.zeros, 3)
            finally:
                torch.set_default_dtype(torch.float32)

        assert told_apart(lambda m: call(m, torch.zeros, 3), inside)
        assert inside(MetadataMemo()).dtype is torch.float64

    def test_functions_and_methods_of_one_name(self) -> None:
        assert told_apart(lambda m: call(m, "relu", X), lambda m: call(m, torch.relu, X))

    def test_values_that_are_known(self) -> None:
        def offset(memo: MetadataMemo, start: int) -> int:
            builder = GraphBuilder(memo)
            x = builder.add_input("x", torch.ones(6))
            known = builder.call_function(torch.tensor, (start,))
            return builder.call_method("narrow", (x, 0, known, 2)).descriptor.offset

        memo = MetadataMemo()
        assert [offset(memo, start) for start in (1, 2, 1, 3, 2)] == [1, 2, 1, 3, 2]
        assert memo.hits == 4  # twice each: torch.tensor and narrow


class TestWhatIsNotEntered:
    @pytest.mark.parametrize(
        "target, args, kwargs",
        [
            ("add_", (X, 1), {}),
            (F.relu, (X,), {"inplace": True}),
            (torch.sin, (X,), {"out": torch.ones(4, 6)}),
            (F.batch_norm, (X, torch.zeros(6), torch.ones(6)), {"training": True}),
            (operator.setitem, (X, 0, 1.0), {}),
            ("requires_grad_", (torch.ones(2),), {}),
        ],
    )
    def test_writes(self, target: Any, args: Any, kwargs: Any) -> None:
        memo = MetadataMemo()
        for _ in range(3):
            call(memo, target, *args, **kwargs)
        assert memo.hits == 0 and len(memo) == 0

    def test_functions_of_the_user(self) -> None:
        memo = MetadataMemo()
        shapes = iter([(2,), (3,)])

        def mine(x: torch.Tensor) -> torch.Tensor:
            return x.new_zeros(next(shapes))

        assert [call(memo, mine, X).shape for _ in range(2)] == [(2,), (3,)]
        assert memo.bypassed == 2

    def test_while_other_modes_are_active(self) -> None:
        from torch.overrides import TorchFunctionMode

        class Doubling(TorchFunctionMode):
            def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                return func(*args, **(kwargs or {}))

        memo = MetadataMemo()
        for _ in range(2):
            with Doubling():
                call(memo, torch.relu, X)
        assert memo.hits == 0 and memo.bypassed == 2

    def test_state_of_the_process(self) -> None:
        memo = MetadataMemo()
        for _ in range(2):
            call(memo, torch.get_num_threads)
        assert memo.hits == 0


class TestHits:
    def test_views_share_storage(self) -> None:
        memo = MetadataMemo()
        for expected in (0, 1):
            builder = GraphBuilder(memo)
            x = builder.add_input("x", torch.ones(4, 6))
            y = builder.call_method("t", (x,))
            assert memo.hits == expected
            assert y.storage is x.storage
            assert y.fake.untyped_storage()._cdata == x.fake.untyped_storage()._cdata
            assert y.fake._is_view()

    def test_fakes_are_made_only_when_asked_for(self) -> None:
        memo = MetadataMemo()
        for _ in range(2):
            builder = GraphBuilder(memo)
            x = builder.add_input("x", torch.ones(4, 6, requires_grad=True))
            y = builder.call_function(torch.relu, (x,))
            z = builder.call_method("view", (y, 24))
        assert x.known_fake is y.known_fake is z.known_fake is None
        assert z.fake.requires_grad and z.fake.grad_fn is not None and not z.fake.is_leaf
        assert y.known_fake is not None

    def test_random_operations_are_known_as_such(self) -> None:
        memo = MetadataMemo()
        for _ in range(2):
            builder = GraphBuilder(memo)
            x = builder.add_input("x", torch.ones(4))
            builder.call_function(F.dropout, (x, 0.5))
            assert builder.uses_rng
        assert memo.hits == 1

    def test_check_mode_finds_a_wrong_entry(self) -> None:
        memo = MetadataMemo()
        call_checked(memo, torch.relu, X)
        wrong = MetadataMemo()
        wrong.interner = memo.interner
        call(wrong, torch.sum, X)
        (key,) = memo._entries
        memo._entries[key] = next(iter(wrong._entries.values()))
        with pytest.raises(MemoMismatch, match="relu: tensor 0: shape"):
            call_checked(memo, torch.relu, X)

    def test_check_mode_does_not_ask_what_lies_behind_a_new_tensor(self) -> None:
        """Torch's decompositions, once some module has loaded them, allocate less than the kernel does."""
        memo = MetadataMemo()
        call_checked(memo, torch.relu, X)
        (template,) = memo._entries.values()
        (new,) = template.tensors
        facts = dict(zip(new.descriptor.__slots__, new.descriptor.facts, strict=True))
        facts["storage_bytes"] += 4
        template.tensors = (new._replace(descriptor=memo.interner.intern(tuple(facts.values()))),)
        call_checked(memo, torch.relu, X)
        assert memo.hits == 1

    def test_clear(self) -> None:
        memo = MetadataMemo()
        call(memo, torch.relu, X)
        call(memo, torch.relu, X)
        assert (memo.hits, memo.misses, len(memo)) == (1, 1, 1)
        memo.clear()
        assert (memo.hits, memo.misses, len(memo)) == (0, 0, 0)
        call(memo, torch.relu, X)
        assert memo.misses == 1

    def test_it_stays_bounded(self) -> None:
        memo = MetadataMemo(max_entries=10)
        for size in range(30):
            call(memo, torch.relu, torch.ones(size))
        assert len(memo) <= 10

    def test_nothing_of_the_user_is_kept_alive(self) -> None:
        import gc
        import weakref

        memo = MetadataMemo()
        tensor = torch.ones(3)
        gone = weakref.ref(tensor)
        call(memo, torch.relu, tensor)
        del tensor
        gc.collect()
        assert gone() is None


@pytest.mark.parametrize(
    "target, fixed",
    [
        (torch.add, True),
        (torch.Tensor.add_, True),
        (torch.Tensor.add, True),
        (F.linear, True),
        (F.softmax, True),
        (torch.einsum, True),
        (operator.add, True),
        (getattr, True),
        (torch.ops.aten.add.Tensor, True),
        (torch.ops.aten.add, True),
        (torch.linalg.norm, True),
        (torch.fft.fft, True),
        (torch.special.erf, True),
        (torch.Tensor.split, True),
        (torch._C._nn.gelu, True),
        (told_apart, False),
        (lambda x: x, False),
        (functools.wraps(F.linear)(lambda x: x), False),
        ([].append, False),
        (time.time, False),
        (zlib.crc32, False),
        (torch.ops.framelift_tests_no_such_namespace, False),
    ],
)
def test_operations_that_do_the_same_every_time(target: Any, fixed: bool) -> None:
    assert is_fixed("call_function", target) is fixed
