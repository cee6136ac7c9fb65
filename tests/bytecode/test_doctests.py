"""The examples in the docstrings run."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import framelift.bytecode

MODULES = [f"framelift.bytecode.{info.name}" for info in pkgutil.iter_modules(framelift.bytecode.__path__)]


@pytest.mark.parametrize("name", [*MODULES, "framelift.residual.resume"])
def test_examples(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0
