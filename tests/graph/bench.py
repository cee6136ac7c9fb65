"""Prints what graph building costs, per operation: ``python -m tests.graph.bench``."""

from __future__ import annotations

import operator
import time

import torch
import torch.nn.functional as F

from framelift.backends import lookup
from framelift.graph import GraphBuilder, MetadataMemo, TensorRef

WIDTH = 64
LAYERS = 20
X = torch.randn(2, 16, WIDTH)


def transformer(builder: GraphBuilder, parameters: list[torch.Tensor], layers: int) -> tuple[TensorRef, int]:
    """Something like a transformer, with 19 operations per layer."""
    h = builder.add_input("x", X)
    w = [builder.add_input(None, p, f"L['self'].w{i}") for i, p in enumerate(parameters)]
    f, m = builder.call_function, builder.call_method
    for _ in range(layers):
        a = f(F.layer_norm, (h, (WIDTH,), w[4], w[5]))
        heads = [m("transpose", (m("view", (f(F.linear, (a, w[i])), 2, 16, 4, 16)), 1, 2)) for i in range(3)]
        o = f(F.scaled_dot_product_attention, tuple(heads))
        o = m("reshape", (m("transpose", (o, 1, 2)), 2, 16, WIDTH))
        h = f(operator.add, (h, f(F.linear, (o, w[3]))))
        left, right = f(torch.chunk, (h, 2), {"dim": -1})
        h = f(torch.cat, ([left, f(F.silu, (right,))], -1))
        h = f(operator.mul, (h, 0.5))
    return h, 19 * layers


def once(memo: MetadataMemo | None, parameters: list[torch.Tensor], layers: int) -> dict[str, float]:
    """Microseconds per operation of each step."""
    start = time.perf_counter()
    builder = GraphBuilder(memo)
    output, count = transformer(builder, parameters, layers)
    called = time.perf_counter()
    module = builder.finish([output])
    finished = time.perf_counter()
    lookup("eager")(module, builder.example_inputs)
    generated = time.perf_counter()
    steps = {"call": called - start, "finish": finished - called, "code": generated - finished}
    return {name: seconds / count * 1e6 for name, seconds in steps.items()}


def best(repeats: int, memo: MetadataMemo | None, parameters: list[torch.Tensor], layers: int) -> str:
    runs = [once(memo, parameters, layers) for _ in range(repeats)]
    return "  ".join(f"{name} {min(run[name] for run in runs):7.2f}" for name in runs[0])


def main() -> None:
    for requires_grad in (False, True):
        shapes = [(WIDTH, WIDTH)] * 4 + [(WIDTH,)] * 2
        parameters: list[torch.Tensor] = [
            torch.nn.Parameter(torch.randn(shape), requires_grad=requires_grad) for shape in shapes
        ]
        once(None, parameters, 1)
        memo = MetadataMemo()
        once(memo, parameters, 1)
        print(f"us per operation, parameters {'require' if requires_grad else 'do not require'} grad")
        print("  run on fake tensors   ", best(2, None, parameters, 5))
        print("  from the memo         ", best(10, memo, parameters, LAYERS))


if __name__ == "__main__":
    main()
