"""Functions whose sizes or numbers depend on data, and calls of them with sizes 0, 1, 2 and more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch


class Case(NamedTuple):
    """A function, and arguments for a number that is a size or a position in it."""

    function: Callable[..., Any]
    arguments: Callable[[int], tuple[Any, ...]]


CASES: dict[str, Case] = {}
# The first call is captured; then come the sizes that are special, and more.
COUNTS = (3, 2, 1, 0, 5, 3)


def _case(arguments: Callable[[int], tuple[Any, ...]]) -> Callable[[Any], Any]:
    def add(function: Any) -> Any:
        CASES[function.__name__] = Case(function, arguments)
        return function

    return add


def _mask(count: int, size: int = 6) -> torch.Tensor:
    return torch.arange(size) < count


def _x() -> torch.Tensor:
    return torch.arange(12.0).reshape(6, 2)


def _masked(count: int) -> tuple[Any, ...]:
    return _x(), _mask(count)


def _numbered(count: int) -> tuple[Any, ...]:
    return _x(), torch.tensor(count)


# -- sizes -----------------------------------------------------------------------------------------------------------


@_case(_masked)
def masked(x, m):
    return x[m] * 2


@_case(_masked)
def masked_and_squeezed(x, m):
    return x[:, 0][m].squeeze(), x[m].squeeze(0)


@_case(_masked)
def nonzero_squeezed(x, m):
    return m.nonzero().squeeze(0), torch.nonzero(m).flatten()


@_case(lambda n: (_x(), _mask(2 if n == 3 else n), _mask(2)))
def sum_of_two_masks(x, m1, m2):
    return x[m1] + x[m2]


@_case(lambda n: (_x(), _mask(n), _mask(n)))
def sum_of_equal_masks(x, m1, m2):
    return x[m1] + x[m2]


@_case(_masked)
def where(x, m):
    (rows,) = torch.where(m)
    return x[rows].sum(0), rows


@_case(_masked)
def masked_select(x, m):
    return torch.masked_select(x[:, 1], m).cumsum(0)


@_case(_masked)
def masked_write(x, m):
    y = x.clone()
    y[m] = y[m] * 2 + 1
    return y


@_case(_masked)
def sizes_of_masked(x, m):
    y = x[m]
    return y.reshape(-1), y.shape[0], y.numel() * 2, y.t().contiguous()


@_case(lambda n: (torch.arange(6) % max(n, 1) if n else torch.empty(0, dtype=torch.long),))
def unique(x):
    return torch.unique(x), torch.unique(x).shape


@_case(lambda n: (torch.arange(6) % max(n, 1),))
def unique_with_counts(x):
    values, inverse, counts = torch.unique(x, return_inverse=True, return_counts=True)
    return values * counts, inverse


@_case(lambda n: (torch.arange(6) // max(6 - n, 1),))
def unique_consecutive(x):
    return torch.unique_consecutive(x) + 1


@_case(lambda n: (_x(), torch.tensor([n, 0, 0, 0, 0, 0])))
def repeated(x, n):
    return x.repeat_interleave(n, 0) + 1


@_case(_masked)
def matrix_of_masked(x, m):
    y = x[m]
    return y @ y.t(), y @ torch.ones(2, 3)


@_case(_masked)
def normalised(x, m):
    return torch.softmax(x[m], 0), x[m].mean(), x[m].sum(), torch.nn.functional.layer_norm(x[m], (2,))


@_case(_masked)
def concatenated(x, m):
    return torch.cat([x[m], x]), torch.stack([x[m], x[m]])


@_case(_masked)
def extremes(x, m):
    return x[m].max(0).values


@_case(_masked)
def scattered(x, m):
    rows = m.nonzero().squeeze(1)
    return torch.zeros(6, 2).index_add(0, rows, x[rows] * 3)


@_case(_masked)
def viewed(x, m):
    y = x[m]
    return y.view(-1, 2), y.unsqueeze(0).expand(3, -1, -1), y[:, None] + y[None]


@_case(_masked)
def broadcast(x, m):
    return x[m] + torch.ones(1, 2), x[m] * torch.arange(2.0), x[m][:, :1] + x[m]


@_case(lambda n: (torch.tensor([0, n, 0, 1]),))
def one_hot(i):
    return torch.nn.functional.one_hot(i).float().sum(0), torch.nn.functional.one_hot(i, 6)


@_case(lambda n: (torch.tensor([0, n, 0, 1]), torch.arange(4.0)))
def bincount(i, weights):
    return torch.bincount(i), i.bincount(weights, minlength=4)


@_case(lambda n: (_x(), torch.tensor([min(n, 2), 4])))
def tensor_split(x, at):
    return torch.tensor_split(x, at), x.t().tensor_split(at, dim=1)[1].sum()


@_case(lambda n: (torch.randn(6, 8), torch.randn(3, 8, 16), torch.tensor([n, max(n, 4), 6], dtype=torch.int32)))
def grouped_products(x, weights, ends):
    return torch._grouped_mm(x.bfloat16(), weights.bfloat16(), offs=ends)


@_case(_masked)
def written_by_mask(x, m):
    x[m] += 1
    x[~m] = 0.5
    x[m, 0] = x[m, 1]
    return x.masked_scatter(m[:, None].expand_as(x), x[m] * 2)


# -- numbers ---------------------------------------------------------------------------------------------------------


@_case(_numbered)
def item(x, n):
    return x * n.item(), n.item() + 1


@_case(lambda n: (_x(), torch.tensor(n + 0.5)))
def float_item(x, f):
    return x * f.item() + float(f)


@_case(lambda n: (_x(), torch.tensor(n > 2)))
def bool_item(x, b):
    return x + 1, b.item()


@_case(_numbered)
def converted(x, n):
    return x + int(n), x * float(n)


@_case(_numbered)
def made(x, n):
    return torch.zeros(n.item(), 2) + x[:1], torch.arange(n.item())


@_case(lambda n: (torch.tensor([n, 1]),))
def counted_to(bounds):
    return torch.arange(bounds[0]), torch.arange(bounds[1], bounds[0] + 3, 2)


@_case(_numbered)
def filled(x, n):
    return torch.full((2, 2), n.item()), x.new_ones(n.item())


@_case(_numbered)
def prefix(x, n):
    return x[: n.item()] * 2


@_case(_numbered)
def prefix_by_tensor(x, n):
    return x[:n].sum(0), x[n:].clone()


@_case(_numbered)
def one_row(x, n):
    return x[n.item()] * 2


@_case(lambda n: (torch.zeros(2, 6, 3), torch.tensor(n), torch.ones(2, 1, 3)))
def cache_update(kv, p, x):
    kv[:, p : p + 1] = x
    return kv.sum(1)


@_case(lambda n: (torch.zeros(2, 6, 3), torch.tensor(n), torch.ones(2, 2, 3)))
def cache_update_of_two(kv, p, x):
    kv[:, p : p + 2] = x
    return kv[:, : p + 2].sum(1), kv * 2


@_case(lambda n: (torch.arange(36.0).reshape(2, 6, 3), torch.tensor(n)))
def cache_read(kv, p):
    return kv[:, :p] * 2


@_case(lambda n: (torch.arange(36.0).reshape(2, 6, 3), torch.tensor(n)))
def narrowed(kv, p):
    return kv.narrow(1, p.item(), 2) + 1, kv.narrow(1, p, 1).clone()


@_case(lambda n: (_x(), torch.tensor([n, 6 - n])))
def split(x, sizes):
    first, second = x.split(sizes.tolist())
    return first + 1, second.sum(0)


# -- numbers in tensors without dimensions, as indices ---------------------------------------------------------------


@_case(lambda n: (torch.arange(36.0).reshape(6, 6), torch.tensor(n)))
def indexed(x, p):
    return x[p], x[:, p], x[p, p], x[p, None], x[..., p] * 2, x[p, torch.tensor([0, 1])]


@_case(_numbered)
def written_at_an_index(x, p):
    y = x.clone()
    y[p] = 1
    y[p, 1] += 2
    return y


@_case(_numbered)
def limited(x, n):
    return x[: min(n.item(), 4)], x + max(n.item(), 2)
