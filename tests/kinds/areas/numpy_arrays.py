"""NumPy's functions and random numbers, with arrays and tensors."""

import numpy as np
import torch

from tests.kinds.program import Programs

program = Programs()

X = lambda *s: torch.randn(*s)
A = lambda *s: np.random.RandomState(0).randn(*s)


@program.built
def random_normal():
    return (lambda x: x + torch.from_numpy(np.random.randn(3)).float()), (X(3),)


@program.built
def random_uniform():
    return (lambda x: x * np.random.uniform()), (X(3),)


@program.built
def random_seeded():
    def f(x):
        np.random.seed(3)
        return x + np.random.rand()

    return f, (X(3),)


@program.built
def random_choice():
    return (lambda x: x[np.random.randint(0, 3)]), (X(3),)


@program.built
def random_generator():
    def f(x):
        g = np.random.default_rng(3)
        return x + torch.as_tensor(g.standard_normal(3)).float()

    return f, (X(3),)


@program.built
def random_permutation():
    return (lambda x: x[torch.from_numpy(np.random.permutation(3))]), (X(3),)


@program.built
def dtype_object():
    return (lambda a: a.astype(np.dtype("float32")) + 1), (A(3),)


@program.built
def dtype_questions():
    return (lambda a: (a * 2, a.dtype, a.dtype == np.float64, np.dtype("int32").itemsize)), (A(3),)


@program.built
def fft():
    return (lambda a: np.abs(np.fft.fft(a))), (A(8),)


@program.built
def rfft():
    return (lambda a: np.fft.irfft(np.fft.rfft(a))), (A(8),)


@program.built
def percentile():
    return (lambda a: np.percentile(a, 30)), (A(8),)


@program.built
def percentile_list():
    return (lambda a: np.percentile(a, [10, 50, 90], axis=0)), (A(8, 2),)


@program.built
def quantile():
    return (lambda a: np.quantile(a, 0.3)), (A(8),)


@program.built
def median():
    return (lambda a: np.median(a, axis=0)), (A(8, 2),)


@program.built
def interp():
    return (lambda a: np.interp(a, [-1.0, 0.0, 1.0], [0.0, 1.0, 4.0])), (A(8),)


@program.built
def gradient():
    return (lambda a: np.gradient(a)), (A(8),)


@program.built
def histogram():
    return (lambda a: np.histogram(a, bins=4)), (A(8),)


@program.built
def polyfit():
    return (lambda a: np.polyval([1.0, 2.0, 3.0], a)), (A(8),)


@program.built
def searchsorted():
    return (lambda a: np.searchsorted(np.sort(a), 0.1)), (A(8),)


@program.built
def unique():
    return (lambda a: np.unique(a.round())), (A(8),)


@program.built
def linalg():
    return (lambda a: (np.linalg.inv(a), np.linalg.norm(a), np.linalg.det(a))), (A(3, 3) + 3 * np.eye(3),)


@program.built
def linalg_eig():
    return (lambda a: np.linalg.eigh(a @ a.T)[0]), (A(3, 3),)


@program.built
def einsum():
    return (lambda a, b: np.einsum("ij,jk->ik", a, b)), (A(2, 3), A(3, 4))


@program.built
def where_clip():
    return (lambda a: np.where(a > 0, a, 0).clip(0, 1)), (A(8),)


@program.built
def views():
    def f(a):
        b = a[1:]
        b += 1
        return a, b.reshape(-1, 1), a.T

    return f, (A(5),)


@program.built
def mutate_argument():
    def f(a):
        a[0] = 5.0
        a[1:3] *= 2
        return a.sum()

    return f, (A(5),)


@program.built
def array_made():
    return (lambda x: x + torch.from_numpy(np.array([1.0, 2.0, 3.0])).float()), (X(3),)


@program.built
def arange_linspace():
    return (lambda a: a + np.arange(5) + np.linspace(0, 1, 5)), (A(5),)


@program.built
def tensor_to_numpy():
    return (lambda x: np.tanh(x.numpy()) + 1), (X(3),)


@program.built
def round_trip():
    return (lambda x: torch.from_numpy(np.cumsum(x.numpy())) * 2), (X(3),)


@program.built
def structured_meshgrid():
    return (lambda a: np.meshgrid(a, a)), (A(3),)


@program.built
def concatenate_stack():
    return (lambda a: np.concatenate([a, np.stack([a[0], a[1]])])), (A(3, 2),)


@program.built
def pad():
    return (lambda a: np.pad(a, 1)), (A(3),)


@program.built
def convolve():
    return (lambda a: np.convolve(a, np.ones(3), mode="same")), (A(8),)


@program.built
def scalar_types():
    return (lambda a: (a * np.float32(2), np.int64(3) + a.shape[0], np.pi * a)), (A(3),)


@program.built
def isnan_any():
    return (lambda a: (np.isnan(a).any(), np.allclose(a, a), np.isfinite(a).all())), (A(3),)


@program.built
def roll_flip_diff():
    return (lambda a: (np.roll(a, 1), np.flip(a), np.diff(a))), (A(5),)


@program.built
def nan_functions():
    return (lambda a: (np.nanmean(a), np.nansum(a), np.nan_to_num(a))), (A(5),)


@program.built
def vectorize():
    return (lambda a: np.vectorize(lambda v: v * 2)(a)), (A(3),)


@program.built
def bincount_cross():
    return (lambda a: (np.bincount(np.array([0, 1, 1])), np.cross(a, a + 1))), (A(3),)


@program.built
def item_tolist():
    return (lambda a: (a + 1).tolist()), (A(3),)


@program.built
def iterate():
    return (lambda a: [r * 2 for r in a]), (A(3, 2),)


@program.built
def set_ops():
    return (lambda a: np.isin(a, a[:2])), (A(3),)


@program.built
def apply_ufunc():
    return (lambda a: np.add.reduce(a) + np.maximum.accumulate(a)), (A(3),)


@program.built
def errstate():
    def f(a):
        with np.errstate(divide="ignore"):
            return np.log(np.abs(a))

    return f, (A(3),)
