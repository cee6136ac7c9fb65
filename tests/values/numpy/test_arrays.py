"""NumPy on tensors: computed by torch's layer for it, and real arrays where they leave the frame."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import framelift
from tests.helpers import check, transcript

np = pytest.importorskip("numpy")

X = torch.arange(12.0).reshape(3, 4) / 7 - 0.5
I = torch.tensor([2, 0, 1])  # noqa: E741
BACKENDS = pytest.mark.parametrize("backend", ["eager", "aot_eager"])

# What NumPy and torch compute alike, to the last bit.
EXACT: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "an array leaves": (lambda x: (x * 2).numpy(), (X,)),
    "an array of an input leaves": (lambda x: x.numpy(), (X,)),
    "two views of one tensor": (lambda x: (x.numpy(), x.numpy()[1:], x + 1), (X,)),
    "arithmetic": (lambda x: (x.numpy() * 2 + 1) / 3 - x.numpy(), (X,)),
    "reflected": (lambda x: 1 - x.numpy(), (X,)),
    "whole numbers": (lambda i: (i.numpy() + 1) * 3 // 2 % 4, (I,)),
    "comparison": (lambda x: (x.numpy() > 0) & (x.numpy() < 0.5), (X,)),
    "where and clip": (lambda x: np.where(x.numpy() > 0, np.clip(x.numpy(), -1, 0.5), 0), (X,)),
    "shapes": (lambda x: np.expand_dims(x.numpy().reshape(2, -1).T, 0).squeeze(), (X,)),
    "ravel is a view": (lambda x: x.numpy().ravel(), (X,)),
    "flatten is a copy": (lambda x: x.numpy().flatten(), (X,)),
    "copies": (lambda x: (x.numpy().copy(), x.numpy().astype(np.float32), x.numpy().astype("float64")), (X,)),
    "items": (lambda x: (x.numpy()[0], x.numpy()[1, 2], x.numpy()[:, 1:3], x.numpy()[..., None]), (X,)),
    "items by an array": (lambda x, i: x.numpy()[i.numpy()], (X, I)),
    "items by a mask": (lambda x: (x + 1).numpy()[(x > 0).numpy()], (X,)),
    "a scalar stays what it was": (lambda x: (x.numpy()[0, 0], x.add_(1))[0], (X,)),
    "concatenation": (lambda x: np.concatenate([x.numpy(), x.numpy() + 1], axis=1), (X,)),
    "stack and split": (lambda x: [p + 1 for p in np.split(np.stack([x.numpy(), x.numpy()]), 2)], (X,)),
    "extremes": (lambda x: (x.numpy().max(), x.numpy().min(axis=0), np.argmax(x.numpy(), axis=1)), (X,)),
    "truths": (lambda x: (np.any(x.numpy() > 0), (x.numpy() > 0).all(axis=1)), (X,)),
    "made arrays": (lambda x: np.zeros((3, 4)) + np.ones(4, dtype=np.float32) + np.arange(4) + x.numpy(), (X,)),
    "a made array of numbers": (lambda x: np.array([1.0, 2.0, 3.0, 4.0]) * x.numpy(), (X,)),
    "facts": (
        lambda x: (x.numpy().shape, x.numpy().ndim, x.numpy().size, x.numpy().dtype, len(x.numpy()), x + 1),
        (X,),
    ),
    "questions about dtypes": (
        lambda x: x + (1 if x.numpy().dtype == np.float32 and x.numpy().dtype != np.int64 else 2),
        (X,),
    ),
    "type of an array": (lambda x: x + (1 if isinstance(x.numpy(), np.ndarray) else 2), (X,)),
    "iteration": (lambda x: [row * 2 for row in x.numpy()], (X,)),
    "back to a tensor": (lambda x: torch.from_numpy(x.numpy() * 2) + 1, (X,)),
    "as_tensor": (lambda x: torch.as_tensor(x.numpy() * 2, dtype=torch.float64), (X,)),
    "a copy as a tensor": (lambda x: torch.tensor(x.numpy()).add_(1), (X,)),
    "an array as an argument": (lambda a: torch.from_numpy(a) * 2, (np.arange(4.0),)),
    "arrays of other types": (
        lambda a, b: (torch.from_numpy(a) + 1, b + 1),
        (np.arange(4), np.arange(4, dtype=np.int16)),
    ),
    "a part of an array": (lambda a: (a[::2] + 1, torch.from_numpy(a[::2]) + 1), (np.arange(8.0)[1:7],)),
    "a number of a scalar": (lambda x: x * float(x.numpy().max()), (X,)),
    "asarray of a tensor": (lambda x: (np.asarray(x), np.asarray(x + 1)), (X,)),
    "a grid": (lambda x: [a + x.numpy().T for a in np.meshgrid(np.arange(3), np.arange(4))], (X,)),
    "closeness": (lambda x: np.isclose(x.numpy(), 0.5), (X,)),
    "diff and roll": (lambda x: (np.diff(x.numpy(), axis=1), np.roll(x.numpy(), 1, axis=0)), (X,)),
}
# What is rounded in another way.
ROUNDED: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "square root of absolutes": (lambda x: np.sqrt(np.abs(x.numpy())), (X,)),
    "sine": (lambda x: np.sin(x.numpy()), (X,)),
    "sine of a tensor": (lambda x: np.sin(x + 1), (X,)),
    "softmax": (lambda x: np.exp(x.numpy()) / np.exp(x.numpy()).sum(axis=-1, keepdims=True), (X,)),
    "sums": (lambda x: (x.numpy().sum(), np.mean(x.numpy(), axis=0), x.numpy().std(), np.var(x.numpy(), axis=1)), (X,)),
    "products": (
        lambda x: (x.numpy() @ x.numpy().T, np.dot(x.numpy(), x.numpy().T), np.outer(x[0].numpy(), x[1].numpy())),
        (X,),
    ),
    "einsum": (lambda x: np.einsum("ij,kj->ik", x.numpy(), x.numpy()), (X,)),
    "norm": (lambda x: x.numpy() / np.linalg.norm(x.numpy()), (X,)),
    "powers": (lambda x: (x.numpy() ** 2, np.power(np.abs(x.numpy()), 1.5)), (X,)),
    "in double precision": (lambda x: np.tanh(x.numpy().astype(np.float64)).cumsum(axis=0), (X,)),
}


@BACKENDS
@pytest.mark.parametrize("name", EXACT)
def test_in_one_graph(name: str, backend: str) -> None:
    function, args = EXACT[name]
    assert len(check(function, *args, backend=backend, expect_ops=0).graphs) == 1


@pytest.mark.parametrize("name", ROUNDED)
def test_rounded(name: str) -> None:
    function, args = ROUNDED[name]
    assert len(check(function, *args, rounding="numpy").graphs) == 1


def adds_in_place(x: torch.Tensor) -> Any:
    a = x.numpy()
    view = a[1:]
    a += 1
    a[0, 0] = 7
    view *= 2
    return a, view, x + 1


@BACKENDS
def test_writing(backend: str) -> None:
    check(adds_in_place, X.clone(), backend=backend)


def test_what_was_returned_lies_in_the_memory_of_the_tensor() -> None:
    x = X.clone()
    array, computed = framelift.compile(lambda x: (x.numpy(), (x + 1).numpy()), backend="eager", fullgraph=True)(x)
    x.add_(10)
    assert array[0, 0] == x[0, 0] and computed[0, 0] != x[0, 0]
    computed[0, 0] = 3  # it is the caller's, to write to


def test_arrays_written_to() -> None:
    def fn(a: Any) -> Any:
        a[0] = 9
        return torch.from_numpy(a) + 1

    check(fn, np.arange(4.0))


# What is left to NumPy.
BREAKS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "gradients": (lambda x: (x * 2).detach().numpy() if x is None else (x * 2).numpy(), (X.clone().requires_grad_(),)),
    "a copy of a tensor": (lambda x: np.array(x + 1), (X,)),
    "true division of whole numbers": (lambda i: (i + 1).numpy() / 2, (I,)),
    "steps backwards": (lambda x: (x + 1).numpy()[::-1], (X,)),
    "a list": (lambda x: (x + 1).numpy().tolist(), (X,)),
    "a read-only array": (lambda x: np.broadcast_to((x + 1).numpy(), (2, 3, 4)), (X,)),
    "an error": (lambda x: (x + 1).numpy() + np.zeros(5), (X,)),
    "a cast that is refused": (lambda i: (i + 1).numpy().__iadd__(1.5), (I,)),
    "an index out of range": (lambda x: (x + 1).numpy()[7], (X,)),
    "a text": (lambda x: str((x + 1).numpy()), (X,)),
    "the truth of an array": (lambda x: x + 1 if (x + 1).numpy().max() > 0 else x, (X,)),
    "random numbers": (lambda x: (x + 1).numpy() + np.random.rand(4), (X,)),
    "numbers of objects": (lambda x, a: (x + 1, a + 1), (X, np.array([1, 2], dtype=object))),
    "complex numbers": (lambda x: (x + 1).numpy() * 1j, (X,)),
}


@pytest.mark.parametrize("name", BREAKS)
def test_left_to_numpy(name: str) -> None:
    function, args = BREAKS[name]
    assert check(function, *args, expect_breaks=None).record.breaks


def test_a_read_only_argument() -> None:
    def fn(x: torch.Tensor, a: Any) -> Any:
        return x + torch.from_numpy(a.copy())

    def given() -> Any:
        return X, np.broadcast_to(np.float32(2), (4,))

    assert check(fn, inputs=given, expect_breaks=None).record.breaks
    lifted = framelift.compile(fn, backend="eager")
    for array in (np.ones(4, np.float32), given()[1]):
        assert torch.equal(lifted(X, array), fn(X, array))


def test_indices_from_data_are_checked() -> None:
    def fn(x: torch.Tensor, i: torch.Tensor) -> Any:
        return x.numpy()[i.numpy()] + 1

    check(fn, X, I, changed=[(X, I + 5), (X, -I)])


def test_guards() -> None:
    def fn(a: Any) -> Any:
        return torch.from_numpy(a) * 2

    one, two, three = np.arange(4.0), np.arange(4), np.arange(8.0)[::2]
    assert transcript(fn, [(one,), (one + 1,), (two,), (three,), (one,)]).split().count("hit") == 2
    lifted = framelift.compile(fn, backend="eager")
    for array in (one, two, three, one[:2], np.arange(6.0)[2:]):
        assert torch.equal(lifted(array), fn(array))


def test_a_function_that_was_replaced_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def fn(x: torch.Tensor) -> Any:
        return np.clip(x.numpy(), 0, 1) + np.abs(x.numpy())

    lifted = framelift.compile(fn, backend="eager")
    assert np.array_equal(lifted(X), fn(X))
    monkeypatch.setattr(np, "clip", lambda a, low, high: a + 100)
    assert np.array_equal(lifted(X), fn(X))
    monkeypatch.setattr(np, "abs", np.negative)
    assert np.array_equal(lifted(X), fn(X))


def test_an_array_in_the_memory_of_a_tensor_that_is_written_to() -> None:
    def fn(x: torch.Tensor, a: Any) -> Any:
        x.add_(1)
        return torch.from_numpy(a) * 2

    def shared() -> tuple[Any, ...]:
        x = X.clone()
        return x, x.numpy()

    for backend in ("eager", "aot_eager"):
        lifted = framelift.compile(fn, backend=backend)
        for make in (lambda: (X.clone(), X.clone().numpy()), shared, lambda: (X.clone(), X.clone().numpy()), shared):
            assert torch.equal(lifted(*make()), fn(*make()))
        framelift.reset()
        lifted = framelift.compile(fn, backend=backend)
        assert torch.equal(lifted(*shared()), fn(*shared()))


def test_changing_shapes() -> None:
    def fn(x: torch.Tensor) -> Any:
        return np.maximum(x.numpy(), 0).reshape(-1) + x.shape[0]

    lifted = framelift.compile(fn, backend="eager")
    for rows in (3, 5, 7, 8):
        assert np.array_equal(lifted(torch.randn(rows, 4)).shape, (rows * 4,))
    check(fn, X, changed=[(torch.randn(5, 4),), (torch.randn(6, 4),)])
