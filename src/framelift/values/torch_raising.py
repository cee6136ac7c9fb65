"""Which tensor operations may raise at run time because of the data they see, not of their metadata."""

from __future__ import annotations

from typing import Any

# Names of functions and methods whose errors depend on tensor contents: indices out of range, singular matrices,
# probabilities that do not add up. Everything else is checked by metadata while capturing.
_NAMES = frozenset(
    "index_select gather scatter scatter_ scatter_add scatter_add_ scatter_reduce index_add index_add_ index_copy "
    "index_copy_ index_fill index_fill_ index_put index_put_ take take_along_dim put put_ embedding embedding_bag "
    "one_hot multinomial bernoulli cross_entropy nll_loss getitem setitem cholesky inverse inv solve lstsq qr svd eigh "
    "eig eigvals eigvalsh det slogdet logdet pinv lu lu_factor ldl_factor matrix_power repeat_interleave bincount "
    "masked_scatter masked_scatter_ _assert _assert_async _check binary_cross_entropy nonzero tensor_split "
    "segment_reduce ctc_loss grid_sample unique histc normal poisson binomial __getitem__ __setitem__".split()
)


def may_raise(target: Any) -> bool:
    name = target if isinstance(target, str) else getattr(target, "__name__", "")
    return name.removeprefix("linalg_") in _NAMES
