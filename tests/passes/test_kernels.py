"""The operators behind the compression passes: plain torch, its gradients, and the Triton kernels against it."""

from __future__ import annotations

import copy
import os
import subprocess
import sys

import pytest
import torch
from torch.nn import functional as F

import framelift
from framelift.passes import PassOptions, kernels, pre_grad_passes
from framelift.passes.kernels.operators import compress, dot_compress
from tests.passes.support import calls, closer

needs_triton = pytest.mark.skipif(not kernels.HAS_TRITON, reason="Triton is not installed")
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available() or not kernels.HAS_TRITON, reason="no CUDA and Triton")

# How tests.passes.interpreted ends where the interpreter itself is at fault.
UNABLE = 77
SHAPES = [(2, 6, 5, 4), (3, 40, 70, 33), (1, 64, 64, 16), (5, 1, 1, 1)]


def operands(shape, dtype, device="cpu"):
    batch, count, size, width = shape
    generator = torch.Generator().manual_seed(count)
    made = [(batch, count, size), (width, count), (width,), (count, width), (batch, count, width)]
    return [torch.randn(each, generator=generator).to(device, dtype) for each in made]


def cases(shape, dtype, device="cpu"):
    """Calls of the operators, and the same in other words."""
    x, w, b, y, ys = operands(shape, dtype, device)
    turned = x.mT.contiguous().mT
    yield (x, w, b), compress, lambda x, w, b: torch.matmul(w, x) + b.unsqueeze(-1)
    yield (turned, w, None), compress, lambda x, w, b: torch.matmul(w, x)
    yield (x.unsqueeze(0), w, b), compress, lambda x, w, b: torch.matmul(w, x) + b.unsqueeze(-1)
    yield (x, y), dot_compress, lambda x, y: (x @ x.mT) @ y
    yield (turned, ys), dot_compress, lambda x, y: (x @ x.mT) @ y


def widened(args):
    return [None if each is None else each.double() for each in args]


@pytest.mark.parametrize("shape", SHAPES)
def test_the_operators_in_plain_torch(shape):
    for args, operator, words in cases(shape, torch.float32):
        closer(words(*args), operator(*args), words(*widened(args)))


def test_their_metadata_and_gradients():
    for args, operator, _ in cases((2, 6, 5, 4), torch.float64):
        args = [each if each is None else each.requires_grad_() for each in args]
        torch.library.opcheck(operator, tuple(args))
        torch.autograd.gradcheck(operator, args)


def test_a_graph_with_them_is_taken_by_every_backend():
    x, w, b, *_ = operands((2, 6, 5, 4), torch.float32)
    operator = kernels.COMPRESS
    f = framelift.compile(lambda x, w, b: operator(x.relu(), w, b) * 2, backend="aot_eager")
    assert torch.equal(f(x, w, b), compress(x.relu(), w, b) * 2)


@needs_triton
def test_the_kernels_in_tritons_interpreter():
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run([sys.executable, "-m", "tests.passes.interpreted"], env=environment, check=False)
    if done.returncode == UNABLE:
        pytest.skip("Triton's interpreter cannot run loops of a length given at run time with this NumPy")
    assert done.returncode == 0


@needs_cuda
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("shape", [*SHAPES, (16, 256, 128, 32)])
def test_the_kernels_on_cuda(shape, dtype):
    for args, operator, words in cases(shape, dtype, "cuda"):
        closer(words(*args), operator(*args), words(*widened(args)))


@needs_cuda
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_passes_choose_the_kernels_on_cuda(dtype):
    x, w, b, y, _ = operands((4, 64, 32, 16), dtype, "cuda")

    def f(x, w, b, y):
        return F.linear(x.permute(0, 2, 1), w, b).permute(0, 2, 1).contiguous(), torch.bmm(x, x.mT) @ y

    gm, _ = framelift.export(f, x, w, b, y)
    after = copy.deepcopy(gm)
    names = "use_triton_lce_replace_normal_LCE,use_triton_dot_compress"
    options = PassOptions(approximate=True, on_error="raise")
    pre_grad_passes(after, [x, w, b, y], names, options=options)
    assert calls(after) == ["compress.default", "dot_compress.default"]
    exact = f(*widened([x, w, b, y]))
    for want, got, best in zip(gm(x, w, b, y), after(x, w, b, y), exact, strict=True):
        closer(want, got, best)
