"""`torch.masked`: tensors with a mask."""

import torch
from torch.masked import as_masked_tensor, masked_tensor

from tests.kinds.program import Programs

program = Programs()


def x():
    return torch.arange(6.0).reshape(2, 3)


def masked():
    return masked_tensor(x(), x() > 1)


@program(lambda: (x(),))
def made(x):
    m = masked_tensor(x * 2, x > 1)
    return (m + m).get_data(), m.get_mask()


@program(lambda: (x(),))
def reductions(x):
    m = as_masked_tensor(x, x > 1)
    return m.sum(dim=0).get_data(), m.mean().get_data(), m.amax(dim=1).get_data()


@program(lambda: (x(),))
def filled(x):
    return masked_tensor(x, x > 1).to_tensor(0.0)


@program(lambda: (masked(),))
def given(m):
    return (m * 2).get_data(), m.get_mask()


@program(lambda: (x(),))
def functions(x):
    return torch.masked.sum(x, 0, mask=x > 1), torch.masked.softmax(x, 1, mask=x > 1), torch.masked.mean(x, mask=x > 1)
