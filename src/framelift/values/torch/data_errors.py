"""Which tensor operations may raise at run time because of the data they see, not of their metadata."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch

from framelift.graph import TensorRef

# Names of functions and methods whose errors depend on tensor contents: singular matrices, probabilities that do not
# add up. Everything else is checked by metadata while capturing.
_NAMES = frozenset(
    "embedding_bag one_hot multinomial bernoulli bernoulli_ multi_margin_loss multilabel_margin_loss cholesky "
    "cholesky_solve cholesky_inverse inverse inv solve solve_triangular solve_ex lstsq qr svd svdvals eigh "
    "eig eigvals eigvalsh det slogdet logdet pinv lu lu_factor lu_solve ldl_factor matrix_power matrix_rank "
    "cond repeat_interleave bincount masked_scatter masked_scatter_ _assert _assert_async _check "
    "binary_cross_entropy nonzero tensor_split segment_reduce ctc_loss grid_sample unique histc histogram "
    "normal normal_ poisson binomial max_unpool1d max_unpool2d max_unpool3d lobpcg householder_product ormqr "
    "tensorinv tensorsolve pack_padded_sequence pad_packed_sequence".split()
)

# Indices that may be out of range. On a GPU that is no exception: the device stops, at a time of its own, for good.
_INDICES = frozenset(
    "index_select gather scatter scatter_ scatter_add scatter_add_ scatter_reduce scatter_reduce_ index_add "
    "index_add_ index_copy index_copy_ index_fill index_fill_ index_put index_put_ index_reduce index_reduce_ "
    "take take_along_dim put put_ embedding cross_entropy nll_loss nll_loss2d".split()
)

# Whole numbers cannot be divided by zero, floating-point ones can.
_DIVISIONS = frozenset(
    "floordiv ifloordiv mod imod floor_divide floor_divide_ remainder remainder_ fmod fmod_ div div_ divide "
    "divide_ __floordiv__ __rfloordiv__ __ifloordiv__ __mod__ __rmod__ __imod__ gcd lcm".split()
)
# Matrices of different types are not multiplied, but by autocast. Metadata propagation lets that pass.
_PRODUCTS = frozenset(
    "matmul __matmul__ __rmatmul__ mm bmm mv dot vdot inner addmm addmm_ addmv addmv_ addbmm baddbmm linear bilinear "
    "einsum tensordot chain_matmul multi_dot conv1d conv2d conv3d conv_transpose1d conv_transpose2d "
    "conv_transpose3d scaled_dot_product_attention".split()
)
_INDEXED = frozenset({"getitem", "setitem", "__getitem__", "__setitem__"})
_POWERS = frozenset({"pow", "pow_", "ipow", "__pow__", "__rpow__", "__ipow__"})


def may_raise(target: Any, args: tuple[Any, ...]) -> bool:
    """Whether an operation on these arguments (constants and values of the graph) may raise because of their data.

    >>> may_raise("cholesky", ()), may_raise("add", ())
    (True, False)
    """
    name = (target if isinstance(target, str) else getattr(target, "__name__", "")).partition(".")[0]
    name = name.removeprefix("linalg_")
    if name in _NAMES:
        return True
    for names, decides in _BY_ARGUMENT:
        if name in names:
            return decides(args)
    return False


def _checked_at_once(args: tuple[Any, ...]) -> bool:
    """Whether indices are looked at before the call returns."""
    devices = [arg.device.type for arg in args if isinstance(arg, TensorRef)]
    return not devices or any(device != "cuda" for device in devices)


def _indexed_by_tensor(args: tuple[Any, ...]) -> bool:
    key = args[1] if len(args) > 1 else None
    if isinstance(key, TensorRef) and _masks(key, args[0]):
        return False
    parts = key if isinstance(key, tuple) else (key,)
    return any(isinstance(part, TensorRef) for part in parts) and _checked_at_once(args)


def _masks(mask: TensorRef, tensor: Any) -> bool:
    """Whether a tensor is a mask with the sizes of another: fake tensors do not compare them."""
    if mask.dtype is not torch.bool or not isinstance(tensor, TensorRef):
        return False
    sizes, wanted = mask.descriptor.shape, tensor.descriptor.shape
    return str(tuple(sizes)) == str(tuple(wanted[: len(sizes)]))  # comparing symbols would assume something


def _on_integers(args: tuple[Any, ...]) -> bool:
    return not any(isinstance(arg, TensorRef) and arg.dtype.is_floating_point for arg in args)


def _of_mixed_types(args: tuple[Any, ...]) -> bool:
    tensors = [arg for arg in args if isinstance(arg, TensorRef)]
    if len({tensor.dtype for tensor in tensors}) < 2:
        return False
    return not any(torch.is_autocast_enabled(tensor.device.type) for tensor in tensors)


class Indices(NamedTuple):
    """Indices that an operation takes into a dimension of so many items, from `least` on, or another number."""

    indices: TensorRef
    least: int
    size: int
    allowed: int | None = None


# Where nothing but the indices can be wrong: `operation(tensor, dim, indices, ...)`. None may be negative.
_ALONG_A_DIMENSION = frozenset("index_select index_add index_add_ index_copy index_copy_ gather".split())
# The same of losses: the classes, and the one that is ignored, by their places and names.
_LOSSES = {"cross_entropy": 4, "nll_loss": 4}
_IGNORED = -100


def indices_of(target: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Indices | None:
    """The indices for which alone an operation may raise, whatever else there is in its data; None: it is another."""
    name = target if isinstance(target, str) else getattr(target, "__name__", "")
    if name in _ALONG_A_DIMENSION and len(args) >= 3 and type(args[1]) is int:
        return _within(args[0], args[1], args[2])
    if name == "embedding" and len(args) >= 2:
        indices, table = args[:2] if target is torch.nn.functional.embedding else args[1::-1]
        return _within(table, 0, indices)
    if name in _LOSSES:
        return _classes(args, kwargs, _LOSSES[name])
    if name in _INDEXED and len(args) >= 2:
        key = args[1] if type(args[1]) is tuple else (args[1],)
        places = [place for place, part in enumerate(key) if isinstance(part, TensorRef)]
        if len(places) == 1 and all(type(part) is slice for place, part in enumerate(key) if place != places[0]):
            found = _within(args[0], places[0], key[places[0]])
            return None if found is None else found._replace(least=-found.size)
    return None


def _within(tensor: Any, dim: int, indices: Any) -> Indices | None:
    if not isinstance(tensor, TensorRef) or not isinstance(indices, TensorRef):
        return None
    sizes = tensor.descriptor.shape
    if indices.dtype not in (torch.int64, torch.int32) or not -len(sizes) <= dim < len(sizes):
        return None
    size = sizes[dim]
    return Indices(indices, 0, size) if type(size) is int else None


def _classes(args: tuple[Any, ...], kwargs: Mapping[str, Any], place: int) -> Indices | None:
    """The classes that a loss is given. (Probabilities of classes are none.)"""
    scores, classes = (args[at] if len(args) > at else kwargs.get(key) for at, key in enumerate(("input", "target")))
    ignored = args[place] if len(args) > place else kwargs.get("ignore_index", _IGNORED)
    if not isinstance(scores, TensorRef) or type(ignored) is not int:
        return None
    found = _within(scores, 1 if len(scores.descriptor.shape) > 1 else 0, classes)
    return None if found is None else found._replace(allowed=ignored)


_BY_ARGUMENT: tuple[tuple[frozenset[str], Callable[[tuple[Any, ...]], bool]], ...] = (
    (_INDICES, _checked_at_once),
    (_INDEXED, _indexed_by_tensor),
    (_DIVISIONS, _on_integers),
    (_POWERS, _on_integers),
    (_PRODUCTS, _of_mixed_types),
)
