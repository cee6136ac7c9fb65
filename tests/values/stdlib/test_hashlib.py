"""Digests of constants."""

from __future__ import annotations

import hashlib

import torch

import framelift
from tests.helpers import check

X = torch.ones(3)


def test_of_constants():
    def f(x, text):
        made = hashlib.sha256(text.encode())
        made.update(b"more")
        other = made.copy()
        other.update(b"still more")
        scale = int(made.hexdigest(), 16) % 7
        return (
            x * scale,
            other.digest(),
            hashlib.new("md5", b"a").hexdigest(),
            hashlib.blake2b(b"a", digest_size=4).hexdigest(),
            hashlib.shake_128(b"a").hexdigest(5),
            (made.name, made.digest_size, made.block_size),
        )

    check(f, X, "seed", changed=[(X, "other")], fullgraph=True)


def test_errors():
    def f(x):
        said = []
        for wrong in (lambda: hashlib.sha1("text"), lambda: hashlib.new("none"), lambda: hashlib.md5().update(3)):
            try:
                wrong()
            except (TypeError, ValueError) as error:
                said.append(str(error))
        return x + 1, said

    check(f, X, fullgraph=True)


def test_wrong_arguments_of_methods():
    def f(x):
        said = []
        made = hashlib.md5(b"a")
        for wrong in (lambda: made.update(), lambda: made.update(b"a", b"b"), lambda: made.digest(3)):
            try:
                wrong()
            except TypeError as error:
                said.append(str(error))
        return x + 1, said, made.hexdigest(), hashlib.shake_128(b"a").hexdigest(length=3), type(made.digest)

    check(f, X, fullgraph=True)


def test_one_that_is_returned():
    def f(x):
        made = hashlib.md5(b"a")
        made.update(b"b")
        return x + 1, made

    lifted = framelift.compile(f, backend="eager", fullgraph=True)
    assert lifted(X)[1].hexdigest() == f(X)[1].hexdigest()
    assert lifted(X)[1] is not lifted(X)[1]


def test_several_that_are_returned():
    def f(x):
        empty, named, more = hashlib.sha256(), hashlib.new("md5"), hashlib.new("sha1", b"a")
        named.update(b"a")
        named.update(b"b")
        copied = named.copy()
        copied.update(b"c")
        more.update(b"b")
        return x + 1, empty, named, copied, more

    lifted = framelift.compile(f, backend="eager", fullgraph=True)
    assert [made.hexdigest() for made in lifted(X)[1:]] == [made.hexdigest() for made in f(X)[1:]]
