"""Random programs with views, writes, taking back and mode switches: the graph does what eager mode does."""

from __future__ import annotations

import operator
import random
from typing import Any

import pytest
import torch

from framelift.graph import GraphBuilder, MetadataFailure, MetadataMemo, TensorRef
from tests.graph.support import metadata

pytestmark = pytest.mark.filterwarnings("ignore")

SHAPE = (4, 6)
# What is left to Python, whether it raises there or not.
REFUSED = ("it changes a tensor that has aliases", "it is about memory that was given a history elsewhere")


def weights(rng: random.Random) -> list[tuple[Any, int, tuple[Any, ...]]]:
    """Operations: target, number of tensor arguments, the other arguments."""
    return [
        (operator.add, 2, ()),
        (operator.mul, 2, ()),
        (torch.maximum, 2, ()),
        ("relu", 1, ()),
        (torch.sin, 1, ()),
        ("detach", 1, ()),
        ("clone", 1, ()),
        ("t", 1, ()),
        ("view", 1, (-1,)),
        ("contiguous", 1, ()),
        (operator.getitem, 1, (rng.randrange(2),)),
        (operator.getitem, 1, (slice(1, None),)),
        ("expand_as", 2, ()),
        ("chunk", 1, (2,)),
        ("sum", 1, (0,)),
        ("add_", 1, (1.0,)),
        ("mul_", 2, ()),
        ("add_", 2, ()),
        ("relu_", 1, ()),
        ("zero_", 1, ()),
        ("copy_", 2, ()),
        ("unsqueeze_", 1, (0,)),
        (operator.iadd, 2, ()),
        (operator.setitem, 1, (0, 2.0)),
        (torch.nn.functional.dropout, 1, (0.5,)),
        ("uniform_", 1, ()),
        ("requires_grad_", 1, ()),
        (getattr, 1, ("data",)),
    ]


def make_inputs(seed: int) -> list[torch.Tensor]:
    torch.manual_seed(seed)
    base = torch.randn(6, 6)
    leaf = torch.randn(SHAPE, requires_grad=True)
    return [torch.randn(SHAPE), base[:4], base[2:], leaf, leaf * 2, torch.randn(SHAPE[::-1]).t()]


def add_result(values: list[Any], result: Any) -> None:
    for item in result if isinstance(result, tuple | list) else [result]:
        if item is not None:
            values.append(item)


def random_program(seed: int, builder: GraphBuilder, steps: int) -> tuple[list[tuple[Any, ...]], list[TensorRef]]:
    """Builds a random program, taking stretches of it back; returns the steps that remain."""
    rng = random.Random(seed)
    values: list[Any] = [builder.add_input(f"i{n}", tensor) for n, tensor in enumerate(make_inputs(seed))]
    done: list[tuple[Any, ...]] = []
    marks: list[tuple[Any, int, int, bool]] = []
    grad = True
    for _ in range(steps):
        chance = rng.random()
        if chance < 0.08:
            marks.append((builder.mark(), len(values), len(done), grad))
        elif chance < 0.14 and marks:
            mark, count, length, grad = marks.pop(rng.randrange(len(marks)))
            marks = [other for other in marks if other[1] <= count and other[2] <= length]
            builder.rollback(mark)
            del values[count:]
            del done[length:]
            torch._C._set_grad_enabled(grad)
        elif chance < 0.18:
            grad = not grad
            torch._C._set_grad_enabled(grad)
            builder.call_function(torch._C._set_grad_enabled, (grad,))
            done.append((torch._C._set_grad_enabled, [], (grad,)))
        else:
            target, arity, rest = rng.choice(weights(rng))
            picked = [rng.randrange(len(values)) for _ in range(arity)]
            args = (*[values[index] for index in picked], *rest)
            try:
                if isinstance(target, str):
                    result = builder.call_method(target, args)
                else:
                    result = builder.call_function(target, args)
            except MetadataFailure as failure:
                assert failure.kind == "error" or failure.reason in REFUSED, failure
                if failure.reason != REFUSED[1]:
                    done.append((target, picked, rest, "raises"))
                continue
            done.append((target, picked, rest))
            add_result(values, result)
    torch._C._set_grad_enabled(True)
    builder.call_function(torch._C._set_grad_enabled, (True,))
    return done, values


def run_eagerly(seed: int, done: list[tuple[Any, ...]]) -> list[torch.Tensor]:
    values: list[Any] = make_inputs(seed)
    torch.manual_seed(99)
    for target, picked, rest, *raises in done:
        args = (*[values[index] for index in picked], *rest)
        if raises:
            continue
        result = getattr(args[0], target)(*args[1:]) if isinstance(target, str) else target(*args)
        add_result(values, result)
    torch._C._set_grad_enabled(True)
    return values


def comparable(tensor: Any) -> dict[str, Any]:
    """Metadata, without strides that do not matter: fake tensors get those of dimensions of size 0 and 1 wrong."""
    facts = metadata(tensor)
    if 0 in facts["shape"]:
        facts["stride"] = []
    facts["stride"] = [s for s, size in zip(facts["stride"], facts["shape"], strict=False) if size != 1]
    return facts


@pytest.mark.parametrize("seed", range(50))
@pytest.mark.parametrize("memory", ["none", "memo", "check"])
def test_random_program(seed: int, memory: str) -> None:
    shared = None if memory == "none" else MetadataMemo()
    builds = 1 if shared is None else 2
    for _ in range(builds):
        builder = GraphBuilder(shared, checks_memo=memory == "check")
        done, values = random_program(seed, builder, 60)
        try:
            expected = run_eagerly(seed, done)
        except RuntimeError:
            # Real kernels refuse to write where memory overlaps, of which fake tensors know nothing, and autograd
            # refuses some writes to stale views unless they have been looked at. The graph then raises as well.
            torch._C._set_grad_enabled(True)
            module = builder.finish(values)
            with pytest.raises(RuntimeError):
                module(*builder.example_inputs)
            torch._C._set_grad_enabled(True)
            return
        torch._C._set_grad_enabled(True)
        assert [comparable(ref) for ref in values] == [comparable(tensor) for tensor in expected]
        if not shared or not shared.hits:
            # Fakes, where they are asked for, show the same.
            for ref in values:
                assert comparable(ref.fake) == comparable(ref)
        module = builder.finish(values)
        module.graph.eliminate_dead_code()
        module.recompile()
        # The graph's inputs are those the builder was given; they are still untouched.
        torch.manual_seed(99)
        got = module(*builder.example_inputs)
        assert torch.is_grad_enabled()
        torch.testing.assert_close(list(got), expected, rtol=0, atol=0, equal_nan=True)
        assert [t.requires_grad for t in got] == [t.requires_grad for t in expected]
        fresh = make_inputs(seed)
        for ref, before, after in zip(builder.inputs, fresh, expected, strict=False):
            if not torch.equal(before, after.detach().reshape(before.shape)):
                assert ref in builder.mutated
    torch._C._set_grad_enabled(True)
