"""Tensors: operators, indexing, methods, attributes, each as a small program that must do what eager does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift
from tests.helpers import check

X = torch.arange(24.0).reshape(2, 3, 4) / 7 + 0.5
Y = torch.arange(24.0).reshape(2, 3, 4).flip(0) / 5 + 1
INTS = torch.arange(24).reshape(2, 3, 4) + 1
J = torch.full((2, 3, 4), 3)
B = INTS % 2 == 0
M = torch.arange(9.0).reshape(3, 3) + torch.eye(3)
V = torch.arange(3.0)
C = torch.complex(X, Y)


def leaf(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.clone().requires_grad_()


def iadd(a: Any, b: Any) -> Any:
    a += b
    return a


def isub(a: Any, b: Any) -> Any:
    a -= b
    return a


def imul(a: Any, b: Any) -> Any:
    a *= b
    return a


def itruediv(a: Any, b: Any) -> Any:
    a /= b
    return a


def ifloordiv(a: Any, b: Any) -> Any:
    a //= b
    return a


def imod(a: Any, b: Any) -> Any:
    a %= b
    return a


def ipow(a: Any, b: Any) -> Any:
    a **= b
    return a


def iand(a: Any, b: Any) -> Any:
    a &= b
    return a


def ior(a: Any, b: Any) -> Any:
    a |= b
    return a


def ixor(a: Any, b: Any) -> Any:
    a ^= b
    return a


def ishift(a: Any, b: Any) -> Any:
    a <<= 1
    a >>= b
    return a


BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "truediv": lambda a, b: a / b,
    "floordiv": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "pow": lambda a, b: a**b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}
INTEGER: dict[str, Callable[[Any, Any], Any]] = {
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "lshift": lambda a, b: a << b,
    "rshift": lambda a, b: a >> b,
}
WITHOUT_GRADIENT = ("floordiv", "mod")
INPLACE = {f.__name__: f for f in (iadd, isub, imul, itruediv, ifloordiv, imod, ipow)}
INPLACE_INTEGER = {f.__name__: f for f in (iadd, isub, imul, ifloordiv, imod, iand, ior, ixor, ishift)}


@pytest.mark.parametrize("name", BINARY)
def test_binary_operators_of_tensors(name: str) -> None:
    differentiable = name not in WITHOUT_GRADIENT
    check(BINARY[name], leaf(X) if differentiable else X, leaf(Y) if differentiable else Y)


@pytest.mark.parametrize("name", BINARY)
def test_binary_operators_with_numbers(name: str) -> None:
    operator = BINARY[name]
    check(
        lambda a: (operator(a, 2), operator(2, a), operator(a, 0.5), operator(1.5, a)),
        X if name in WITHOUT_GRADIENT else leaf(X),
    )


@pytest.mark.parametrize("name", INTEGER)
def test_integer_operators(name: str) -> None:
    operator = INTEGER[name]
    check(lambda a, b: (operator(a, b), operator(a, 2), operator(5, a)), INTS, J)


@pytest.mark.parametrize("name", INPLACE)
def test_inplace_operators(name: str) -> None:
    check(INPLACE[name], X, Y)
    check(INPLACE[name], X, 2)


@pytest.mark.parametrize("name", INPLACE_INTEGER)
def test_inplace_integer_operators(name: str) -> None:
    check(INPLACE_INTEGER[name], INTS, J)


UNARY: dict[str, tuple[Callable[..., Any], Any]] = {
    "neg": (lambda a: -a, X),
    "pos": (lambda a: +(a + 1), X),
    "abs": (lambda a: abs(a), -X),
    "invert ints": (lambda a: ~a, INTS),
    "invert bools": (lambda a: ~a, B),
    "round": (lambda a: a.round(), X),
    "matmul": (lambda a: a @ a, M),
    "matmul vector": (lambda a: a @ a[0], M),
    "rmatmul": (lambda a: a[0] @ a, M),
    "matmul of products": (lambda a: a.mul(2) @ a, M),
    "divmod": (lambda a: (a // 2, a % 2), INTS),
    "rsub": (lambda a: 1 - a, X),
    "rpow": (lambda a: 2**a, X),
    "rfloordiv": (lambda a: 7 // a, INTS),
    "complex": (lambda a: a * (1 + 2j) + a.conj(), C),
    "chain": (lambda a: ((a + 1) * 2 - a / 3) ** 2, X),
    "bool and": (lambda a: (a > 1) & (a < 2) | (a == 0), X),
}


@pytest.mark.parametrize("name", UNARY)
def test_unary_and_mixed(name: str) -> None:
    function, value = UNARY[name]
    check(function, leaf(value) if value.is_floating_point() else value)


INDEXING: dict[str, Callable[[Any], Any]] = {
    "int": lambda x: x[1],
    "negative": lambda x: x[-1],
    "ints": lambda x: x[1, 2, 3],
    "slice": lambda x: x[:, 1:3],
    "step": lambda x: x[:, ::2, ::3],
    "none": lambda x: x[None, :, None],
    "ellipsis": lambda x: x[..., 0],
    "ellipsis middle": lambda x: x[0, ..., 1],
    "mixed": lambda x: x[0, 1:, None, ..., -1],
    "list": lambda x: x[[0, 1, 0]],
    "lists": lambda x: x[[0, 1], [2, 0]],
    "list in tuple": lambda x: x[:, [0, 2], 1:],
    "bool": lambda x: x[True],
    "tensor": lambda x: x[torch.tensor([1, 0])],
    "tensors": lambda x: x[torch.tensor([0, 1]), torch.tensor([1, 1])],
    "computed index": lambda x: x[:, torch.arange(2)],
    "shape arithmetic": lambda x: x[: x.shape[0] // 2, : x.size(1) - 1],
    "variable slice": lambda x: x[slice(0, x.shape[0] - 1)],
    "from the end": lambda x: x[-1:, -2:, -3:],
    "empty": lambda x: x[1:1],
    "tuple": lambda x: x[(0, 1)],
    "beyond": lambda x: x[:100],
    "index of index": lambda x: x[0][1][2],
}


@pytest.mark.parametrize("name", INDEXING)
def test_indexing(name: str) -> None:
    check(INDEXING[name], leaf(X))


def test_index_by_input() -> None:
    check(lambda x, i: x[i], leaf(X), torch.tensor([1, 0, 1]), changed=[(leaf(Y), torch.tensor([0, 0, 1]))])


def test_index_by_int_argument() -> None:
    check(lambda x, i: x[i] + i, X, 1, changed=[(Y, 0), (X, -1)])


@pytest.mark.parametrize("index", [5, -7])
def test_index_out_of_range(index: int) -> None:
    check(lambda x: (x + 1)[index], X, expect_breaks=None)


def test_mask_index() -> None:
    check(lambda x: (x * 2)[x > 1] + 1, X)


def set_int(x: Any) -> Any:
    x[0] = 1
    return x


def set_slice(x: Any) -> Any:
    x[:, 1:] = x[:, :2] * 2
    return x.sum()


def set_value(x: Any) -> Any:
    y = x.clone()
    y[0, 1] = 7.5
    y[..., -1] = y[..., 0]
    return y


def set_mask(x: Any) -> Any:
    y = x * 1
    y[y > 1] = 0
    return y


def set_tensor_index(x: Any) -> Any:
    y = x * 1
    y[torch.tensor([1])] = 5
    return y


def set_in_place(x: Any) -> Any:
    x[0] += 1
    x[:, 1] *= x[:, 0]
    return x


def set_broadcast(x: Any) -> Any:
    y = torch.zeros_like(x)
    y[:] = x[0]
    return y


def set_none(x: Any) -> Any:
    y = x * 2
    y[None, 0] = 3
    return y


@pytest.mark.parametrize(
    "function", [set_int, set_slice, set_value, set_mask, set_tensor_index, set_in_place, set_broadcast, set_none]
)
def test_item_assignment(function: Callable[[Any], Any]) -> None:
    check(function, X)


def unpack(x: Any) -> Any:
    a, b = x
    return a - b


def unpack_star(x: Any) -> Any:
    first, *rest = x.unbind(1)
    return first + len(rest), rest


def iterate(x: Any) -> Any:
    total = 0
    for row in x:
        for column in row:
            total = total + column
    return total


def enumerate_rows(x: Any) -> Any:
    return [row * i for i, row in enumerate(x)]


def zip_rows(x: Any) -> Any:
    return [a + b for a, b in zip(x, x[1:])]


def nested(x: Any) -> Any:
    (a, b, c), d = x
    return a * b + c, d


ITERATION: list[Callable[[Any], Any]] = [
    unpack,
    unpack_star,
    iterate,
    enumerate_rows,
    zip_rows,
    nested,
    lambda x: torch.stack(list(x)),
    lambda x: torch.stack([*x, *x]),
    lambda x: tuple(x),
    lambda x: [*reversed(list(x))],
    lambda x: x * len(x),
    lambda x: sum(x),
    lambda x: torch.stack(list(map(torch.sin, x))),
    lambda x: {i: r for i, r in enumerate(x)},
]


@pytest.mark.parametrize("number", range(len(ITERATION)))
def test_iteration(number: int) -> None:
    check(ITERATION[number], leaf(X))


METADATA: dict[str, Callable[[Any], Any]] = {
    "shape": lambda x: x.view(x.shape[0], -1),
    "shape unpacked": lambda x: (lambda a, b, c: x.reshape(a * b, c))(*x.shape),
    "size": lambda x: x.reshape(x.size(0), x.size(1) * x.size(-1)),
    "size()": lambda x: torch.zeros(x.size()) + x,
    "size slice": lambda x: x.sum(-1).reshape(x.shape[:-1]),
    "size concat": lambda x: x.reshape(x.shape[:1] + (-1,)),
    "numel": lambda x: x / x.numel(),
    "dim": lambda x: x * x.dim() + x.ndim + x.ndimension(),
    "len": lambda x: x * len(x),
    "nelement": lambda x: x * x.nelement(),
    "element_size": lambda x: x * x.element_size(),
    "stride": lambda x: x * x.stride(0) + x.stride()[1],
    "storage_offset": lambda x: x[1] * x[1].storage_offset(),
    "contiguous": lambda x: x + 1 if x.is_contiguous() else x * 2,
    "transposed contiguous": lambda x: x.transpose(0, 1) * x.transpose(0, 1).is_contiguous(),
    "dtype": lambda x: x.to(x.dtype) + torch.ones(2, 3, 4, dtype=x.dtype),
    "device": lambda x: x + torch.ones(4, device=x.device),
    "is_floating_point": lambda x: x * 2 if x.is_floating_point() else x,
    "is_complex": lambda x: x if x.is_complex() else x + 1,
    "is_signed": lambda x: x * int(x.is_signed()),
    "requires_grad": lambda x: x * 2 if x.requires_grad else x * 3,
    "is_leaf": lambda x: (x * 2 if x.is_leaf else x * 3) * (x * 2).is_leaf,
    "is_cuda": lambda x: x * 2 if x.is_cuda else x * 3,
    "layout": lambda x: x + (x.layout is torch.strided),
    "device type": lambda x: x * 2 if x.device.type == "cpu" else x,
    "dtype compared": lambda x: x.double() if x.dtype == torch.float32 else x,
    "dtype attribute": lambda x: x * x.dtype.itemsize * x.dtype.is_floating_point,
    "itemsize": lambda x: x * x.itemsize * x.nbytes,
    "finfo": lambda x: x.clamp(min=torch.finfo(x.dtype).min, max=torch.finfo(x.dtype).eps),
    "isinstance": lambda x: x * 2 if isinstance(x, torch.Tensor) else x,
    "not a parameter": lambda x: x * 2 if isinstance(x, torch.nn.Parameter) else x * 3,
    "type": lambda x: x * 2 if type(x) is torch.Tensor else x,
    "is_tensor": lambda x: x * torch.is_tensor(x),
    "get_device": lambda x: x * x.get_device(),
    "shape equality": lambda x: x * 2 if x.shape == (2, 3, 4) else x,
    "shape equality of two": lambda x: x * 2 if x.shape == x.t().shape[::-1] else x,
    "shape in": lambda x: x * 2 if 3 in x.shape else x,
    "math of shape": lambda x: x * (x.shape[0] ** 0.5),
    "shape numel": lambda x: x * x.shape.numel(),
    "returned shape": lambda x: (x + 1, x.shape, x.size(), x.dtype, x.device),
    "hasattr": lambda x: x * 2 if hasattr(x, "shape") and not hasattr(x, "nonsense") else x,
    "getattr": lambda x: getattr(x, "sum")() + getattr(x, "nonsense", 3),
    "T": lambda x: x[0].T,
    "mT": lambda x: x.mT,
    "H": lambda x: x[0].H,
    "mH": lambda x: x.mH,
    "real": lambda x: torch.complex(x, x).real + torch.complex(x, x).imag,
    "data": lambda x: x.data * 2 + x,
    "detach": lambda x: x.detach() * x,
    "grad_fn None": lambda x: x * 2,
}


@pytest.mark.parametrize("name", METADATA)
def test_metadata(name: str) -> None:
    value = leaf(X)
    if name == "shape equality of two":
        value = leaf(M)
    check(METADATA[name], value)


def inplace_chain(x: Any) -> Any:
    return x.add_(1).mul_(2).clamp_(max=4)


CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    "to dtype": lambda x: x.to(torch.float64),
    "to device": lambda x: x.to("cpu") * 2,
    "to both": lambda x: x.to("cpu", torch.float16) * 1,
    "to keyword": lambda x: x.to(device="cpu", dtype=torch.bfloat16, copy=True),
    "to other": lambda x: x.to(torch.zeros(1, dtype=torch.double)),
    "to itself": lambda x: (x * 2).to(x.dtype),
    "float": lambda x: (x.float(), x.double(), x.half(), x.bfloat16()),
    "int": lambda x: (x.int(), x.long(), x.short(), x.bool()),
    "type": lambda x: x.type(torch.float64),
    "type_as": lambda x: x.type_as(torch.zeros(1, dtype=torch.double)),
    "type name": lambda x: x.type("torch.DoubleTensor"),
    "type()": lambda x: x * 2 if x.type() == "torch.FloatTensor" else x,
    "cpu": lambda x: x.cpu() + 1,
    "clone": lambda x: x.clone(memory_format=torch.contiguous_format),
    "contiguous": lambda x: x.transpose(0, 1).contiguous(),
    "requires_grad_": lambda x: (x.detach() * 1).requires_grad_() * 2,
    "view as real": lambda x: torch.view_as_complex(x.reshape(2, 3, 2, 2)),
    "view dtype": lambda x: x.detach().view(torch.int32),
    "new": lambda x: (x.new_zeros(2), x.new_ones((1, 2)), x.new_full((2,), 3.0), x.new_tensor([1, 2]), x.new_empty(0)),
    "like": lambda x: (torch.zeros_like(x), torch.ones_like(x, dtype=torch.int), torch.full_like(x, 2)),
}


@pytest.mark.parametrize("name", CONVERSIONS)
def test_conversions(name: str) -> None:
    check(CONVERSIONS[name], leaf(X), expect_breaks=None if name == "requires_grad_" else 0)


METHODS: dict[str, Callable[[Any], Any]] = {
    "sum": lambda x: (x.sum(), x.sum(0), x.sum(dim=(0, 1), keepdim=True), x.sum(-1, dtype=torch.double)),
    "mean": lambda x: (x.mean(), x.mean(1), x.mean([0, 2])),
    "var": lambda x: (x.var(), x.std(dim=1), x.var(0, correction=0)),
    "norm": lambda x: (x.norm(), x.norm(dim=1), x.norm(p=1)),
    "cumsum": lambda x: (x.cumsum(0), x.cumprod(dim=1), x.logcumsumexp(-1)),
    "prod": lambda x: (x.prod(), x.prod(1)),
    "argmax": lambda x: (x.argmax(), x.argmin(dim=1), x.argsort(-1)),
    "amax": lambda x: (x.amax(), x.amin(dim=(0, 1)), x.aminmax(dim=0)),
    "clamp": lambda x: (x.clamp(1, 2), x.clamp(min=1), x.clip(max=x.mean())),
    "softmax": lambda x: (x.softmax(-1), x.log_softmax(dim=0), x.sigmoid(), x.tanh(), x.relu()),
    "view": lambda x: (x.view(-1), x.view(6, 4), x.view((3, 8)), x.view_as(x)),
    "reshape": lambda x: (x.reshape(-1), x.flatten(1), x.unflatten(2, (2, 2)), x.ravel()),
    "permute": lambda x: (
        x.permute(2, 0, 1),
        x.permute((1, 0, 2)),
        x.transpose(0, -1),
        x.swapaxes(0, 1),
        x.movedim(0, 2),
    ),
    "squeeze": lambda x: (x.unsqueeze(0).squeeze(0), x.unsqueeze(-1).squeeze(), x[:1].squeeze()),
    "expand": lambda x: (x[:1].expand(4, -1, -1), x[:1].expand_as(x), x.broadcast_to(2, 2, 3, 4)),
    "repeat": lambda x: (x.repeat(2, 1, 1), x.tile((2,)), x.repeat_interleave(2, dim=0)),
    "roll": lambda x: (x.roll(1, 0), x.flip(0), x.flip([0, 1]), x.rot90(1, (0, 1))),
    "masked_fill": lambda x: (x.masked_fill(x > 1, 0), x.where(x > 1, -x), x.masked_fill(x > 1, float("-inf"))),
    "gather": lambda x: (x.gather(0, torch.zeros(1, 3, 4, dtype=torch.long)), x.index_select(0, torch.tensor([1]))),
    "scatter": lambda x: x.scatter(0, torch.zeros(1, 3, 4, dtype=torch.long), 2.0),
    "index_add": lambda x: x.index_add(0, torch.tensor([0, 1]), x),
    "triu": lambda x: (x.triu(), x.tril(-1), x[0].diagonal(), x[0].diag_embed(), x[0].trace()),
    "narrow": lambda x: (x.narrow(1, 0, 2), x.select(0, 1), x.unfold(2, 2, 1)),
    "split": lambda x: (x.split(2, 1), x.chunk(2, dim=2), x.tensor_split(2), x.unbind(0), x.hsplit(3)),
    "unbind item": lambda x: x.unbind()[1] + x.split([1, 2], dim=1)[0][0],
    "lerp": lambda x: (x.lerp(x * 2, 0.5), x.addcmul(x, x, value=2), x.addcdiv(x, x)),
    "matmul": lambda x: (x.matmul(x.mT), x.bmm(x.mT), x[0].mm(x[0].t()), x[0].mv(x[0, 0]), x[0, 0].dot(x[0, 1])),
    "sort": lambda x: (x.sort(), x.sort(dim=0, descending=True)[0], x.topk(2).values, x.kthvalue(1).indices),
    "max": lambda x: (x.max(), x.max(0), x.max(dim=1, keepdim=True).values, x.max(x * 2), x.median(), x.mode()),
    "fill": lambda x: x.detach().clone().fill_(3).zero_().copy_(x),
    "all": lambda x: (x.bool().all(), x.bool().any(dim=0), x.isnan(), x.isfinite().all(1)),
    "apply": lambda x: x.exp().log().sqrt().rsqrt().sin().cos().abs().neg().square().reciprocal(),
    "add alpha": lambda x: x.add(x, alpha=3).sub(1, alpha=2),
    "not in place": lambda x: x.clone().add_(1).mul_(x),
    "allclose": lambda x: x.isclose(x + 1e-9).float() * x,
    "float power": lambda x: x.pow(2) + x.pow(0.5) + x.float_power(2),
    "flatten nested": lambda x: x.unflatten(0, [2, 1]).flatten(0, 1),
    "einops like": lambda x: x.reshape(2, 3, 2, 2).permute(0, 2, 1, 3).reshape(2, 2, -1),
    "dunder": lambda x: x.__add__(1).__mul__(2).__getitem__(0).__neg__().__rsub__(4),
    "bound": lambda x: [f(1) for f in (x.add, x.mul, x.sub)],
    "diff": lambda x: (x.diff(), x.diff(dim=0)),
    "outer": lambda x: x[0, 0].outer(x[0, 1]),
    "mul_sum": lambda x: (x * x).sum((1, 2)).view(-1, 1).expand(2, 5),
    "cross": lambda x: x.mT.cross(x.mT * 2, dim=-1),
    "nan_to_num": lambda x: (x / 0).nan_to_num(0, 1, -1),
    "bucketize": lambda x: torch.bucketize(x.detach(), torch.tensor([0.5, 1.0])),
    "cdist": lambda x: torch.cdist(x, x),
    "new axis": lambda x: x[:, None] - x[None, :],
    "numpy style": lambda x: x.sum(axis=1),
    "as_strided": lambda x: x.as_strided((2, 2), (1, 2)),
    "in-place on intermediate": lambda x: (x * 2).add_(1).relu_(),
}


@pytest.mark.parametrize("name", METHODS)
def test_methods(name: str) -> None:
    check(METHODS[name], leaf(X))


VALUES: dict[str, Callable[[Any], Any]] = {
    "bool": lambda x: x * 2 if (x * 1).sum() > 0 else x,
    "item": lambda x: (x * 2).sum().item() + 1,
    "tolist": lambda x: (x * 2).tolist(),
    "float": lambda x: float((x * 2).sum()),
    "int": lambda x: int((x * 2).sum()),
    "numpy": lambda x: (x * 2).numpy().sum(),
    "if": lambda x: 1 if (x + 1).any() else 2,
    "not": lambda x: not (x + 1).any(),
    "and": lambda x: (x + 1).any() and x * 2,
    "contains": lambda x: 3 in (x + 1),
    "str": lambda x: str(x * 2),
    "repr": lambda x: repr(x * 2),
    "format": lambda x: f"{(x * 2).sum():.2f}",
    "equal": lambda x: torch.equal(x * 2, x + x),
    "allclose": lambda x: torch.allclose(x * 2, x + x),
    "nonzero": lambda x: (x - 1).relu().nonzero(),
    "nonzero tuple": lambda x: (x - 1).relu().nonzero(as_tuple=True),
    "unique": lambda x: (x * 0).unique(),
    "masked_select": lambda x: (x * 2).masked_select(x > 1),
    "is_nonzero": lambda x: (x * 2).sum().is_nonzero(),
    "index": lambda x: [1, 2, 3][(x * 0).sum().long()],
    "range": lambda x: list(range((x * 0 + 2).amax().long())),
    "min of tensors": lambda x: min((x + 1)[0, 0, 0], x[0, 0, 1]),
    "data_ptr": lambda x: (x + 1).data_ptr() > 0,
    "hash": lambda x: hash(x + 1) is None,
}


@pytest.mark.parametrize("name", VALUES)
def test_values_of_tensors_break(name: str) -> None:
    check(VALUES[name], X, expect_breaks=None)


def test_attributes_hung_on_computed_tensors() -> None:
    def f(x: torch.Tensor) -> Any:
        y = x + 1
        y.label = "y"
        y.friend = x * 2
        z = y.view(-1)
        return y * 2, y, z, hasattr(z, "label"), y.label, y.friend + 1

    checked = check(f, torch.ones(2, 3))
    assert len(checked.graphs) == 1
    lifted = framelift.compile(f, backend="eager")
    for _ in range(2):
        y = lifted(torch.ones(2, 3))[1]
        assert y.label == "y" and torch.equal(y.friend, torch.full((2, 3), 2.0))


def test_a_tensor_with_attributes_is_returned() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        y.label = y.shape[0]  # type: ignore[attr-defined]
        return y

    lifted = framelift.compile(f, backend="eager", fullgraph=True)
    assert [lifted(torch.ones(size)).label for size in (2, 2, 3)] == [2, 2, 3]


def test_attributes_hung_on_inputs() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        x.seen = getattr(x, "seen", 0) + 1  # type: ignore[attr-defined]
        return x * x.seen  # type: ignore[attr-defined]

    lifted = framelift.compile(f, backend="eager", fullgraph=True)
    x = torch.ones(2)
    assert [lifted(x)[0].item() for _ in range(3)] == [1, 2, 3] and x.seen == 3  # type: ignore[attr-defined]


def test_attributes_undone_by_a_break() -> None:
    def f(x: torch.Tensor) -> Any:
        y = x + 1
        y.label = "a"
        framelift.graph_break()
        y.label = y.label + "b"
        return y, y.label

    check(f, torch.ones(2), expect_breaks=None)


def knows_its_history(x):
    y = x * 2
    return y if y.grad_fn is not None else y + 1, x.grad_fn is None


@pytest.mark.parametrize("requires_grad", [False, True])
def test_whether_a_tensor_was_computed(requires_grad):
    x = torch.ones(3, requires_grad=requires_grad)
    check(knows_its_history, x, changed=[(torch.ones(3, requires_grad=not requires_grad),)])


class TestNew:
    """`x.new()` takes a `torch.Size` for a size, and any other sequence for data."""

    @pytest.mark.parametrize(
        "program",
        [
            lambda x: x.new(x.shape).fill_(1),
            lambda x: x.new(x.shape[:1]).fill_(1),
            lambda x: x.new(torch.Size([])).fill_(1),
            lambda x: x.new(size=x.size()).fill_(1),
            lambda x: x.new(x.size(), device="cpu").fill_(1),
            lambda x: x.new(2, 3).fill_(1),
            lambda x: x.new((2, 3)),
            lambda x: x.new([2, 3]),
            lambda x: x.new(tuple(x.shape)),
            lambda x: x.new(),
        ],
    )
    def test_size_or_data(self, program: Callable[[torch.Tensor], torch.Tensor]) -> None:
        assert len(check(program, X, changed=[(X[:1],)]).graphs) >= 1

    def test_a_symbolic_size(self) -> None:
        check(lambda x: x.new(x.shape).fill_(2), X, changed=[(X[:, :2],), (X[:1],)], dynamic=True)


def test_keys_of_tensors_that_are_objects():
    class Position:
        def __init__(self, number):
            self.number = number

        def __index__(self):
            return self.number

    def fn(x, at):
        written = x.clone()
        written[at] = 0
        written[0, at] += 5
        return x[at] + 1, x[:at] * 2, x[0, at] + 1, x[..., Position(-1)] * 2, x[at:, :: Position(2)] + 1, written

    given = torch.arange(6.0).reshape(2, 3)
    check(fn, given, Position(1), changed=[(given, Position(0)), (given, Position(-1))])


def test_a_number_is_set_where_a_mask_without_dimensions_is_true() -> None:
    def f(x: Any) -> Any:
        x[x.gt(0)] = 1.25
        x[x.lt(0)] = -2
        return x * 2

    check(
        f, torch.tensor(3.0), changed=[(torch.tensor(number),) for number in (-1.0, 0.0, float("nan"))], fullgraph=True
    )
