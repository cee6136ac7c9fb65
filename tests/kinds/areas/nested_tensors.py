"""Jagged and strided nested tensors: made inside, given, and what is computed with them."""

import torch
import torch.nn.functional as F

from tests.kinds.program import Programs

program = Programs()


def parts(requires_grad=False):
    return [torch.arange(1.0, 1.0 + n * 4).reshape(n, 4).requires_grad_(requires_grad) for n in (2, 3, 1)]


def jagged():
    return torch.nested.nested_tensor(parts(), layout=torch.jagged)


def values():
    return torch.arange(24.0).reshape(6, 4), torch.tensor([0, 2, 5, 6])


@program(values)
def made_of_values(values, offsets):
    n = torch.nested.nested_tensor_from_jagged(values * 2, offsets)
    return (n + 1).values()


@program(values)
def made_and_returned(values, offsets):
    return torch.nested.nested_tensor_from_jagged(values * 2, offsets)


@program(parts)
def made_of_a_list(a, b, c):
    n = torch.nested.nested_tensor([a, b, c], layout=torch.jagged)
    return (n * 2).values()


@program(parts)
def as_nested(a, b, c):
    n = torch.nested.as_nested_tensor([a, b, c], layout=torch.jagged)
    return n.sin().values()


@program(lambda: (jagged(),))
def given(n):
    return n * 2 + 1


@program(lambda: (jagged(),))
def given_and_unwrapped(n):
    return (n * 2).values(), n.offsets()


@program(lambda: (jagged(), torch.ones(4, 5)))
def product(n, weight):
    return n @ weight


@program(lambda: (jagged(), torch.ones(5, 4), torch.ones(5)))
def linear(n, weight, bias):
    return F.relu(F.linear(n, weight, bias))


@program(lambda: (jagged(),))
def attention(n):
    q = n.unflatten(-1, [2, 2]).transpose(1, 2)
    return F.scaled_dot_product_attention(q, q, q).transpose(1, 2)


@program(lambda: (jagged(),))
def padded(n):
    return torch.nested.to_padded_tensor(n, 0.0)


@program(lambda: (jagged(),))
def unbound(n):
    return [part * 2 for part in n.unbind()]


@program(lambda: (jagged(),))
def facts(n):
    return n.dim(), n.is_nested, n.dtype, n.layout, n.size(0), n.size(2), n + 1


@program(lambda: (jagged(),))
def reductions(n):
    return n.sum(dim=-1), n.mean(dim=2), n.sum()


@program(lambda: (torch.nested.nested_tensor(parts()),))
def strided(n):
    return n * 2


@program(parts)
def strided_made(a, b, c):
    return torch.nested.to_padded_tensor(torch.nested.nested_tensor([a, b, c]), 0.0)
