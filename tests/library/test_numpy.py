"""Functions of NumPy's given tensors, in one graph: what they return, and what they warn of."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import framelift
from tests.helpers import check
from tests.values.programs import Programs, x

programs = Programs()
options = {"fullgraph": True, "rounding": "numpy"}


@programs(**options)
def item_by_item(x):
    return np.sin(x) + 1, np.add(x, 1), np.maximum(x, 0.5), np.multiply(x, x), np.power(x, 2), np.abs(x)


@programs(**options)
def truths(x):
    return np.greater(x, 0), np.isnan(x), np.logical_not(x > 0), np.isfinite(x.sum())


@programs(**options)
def read_as_arrays(x):
    joined = np.concatenate([x, x + 1]), np.stack((x, x)), np.vstack([x, x]), np.hstack([x, x.numpy()])
    return joined, np.where(x > 0, x, 0), np.sort(x), np.expand_dims(x, 0), np.tile(x, 2), np.linalg.norm(x)


@programs(**options)
def with_arrays(x):
    return np.add(x, x.numpy()), np.add(x.numpy(), x), x + 1


@programs(**options)
def memory_is_shared_where_numpy_shares_it(x):
    y = np.asarray(x)
    y[0] = 5
    z = np.negative(x)
    z.add_(1)
    return x + 1, y, z


@programs(args=(torch.arange(4),), **options)
def other_dtypes(x):
    return np.sin(x), np.add(x, 2), np.matmul(x, x)


@programs(rounding="numpy", expect_breaks=None)
def what_numpy_leaves_to_the_tensor(x):
    found = []
    for function in (np.sum, np.mean, np.std):
        try:
            function(x)
        except TypeError as error:
            found.append(str(error))
    return x + 1, found, np.clip(x, 0, 1), np.reshape(x, (3, 2))


@programs(rounding="numpy", expect_breaks=None)
def a_warning_that_is_an_error(x):
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            return np.sin(x)
        except DeprecationWarning as error:
            return x + 1, str(error)


test_programs = programs.test()


def test_a_tensor_that_requires_gradients():
    def fn(x):
        try:
            return np.sin(x)
        except RuntimeError as error:
            return x + 1, str(error)

    check(fn, x().requires_grad_(), expect_breaks=None)


def test_filters_are_asked_in_each_call():
    lifted = framelift.compile(lambda x: np.sin(x), backend="eager", fullgraph=True)
    with pytest.warns(DeprecationWarning):
        lifted(x())
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(DeprecationWarning):
            lifted(x())
