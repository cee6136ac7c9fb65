"""Backends that torch's own compiler knows are found by name once it is loaded."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import framelift
from framelift.backends import list_backends, lookup, register_backend
from framelift.backends.registry import Registry
from tests.helpers import assert_same

NOT_LOADED = """
import sys, torch, framelift
assert "torch._dynamo.backends.registry" not in sys.modules
assert framelift.list_backends() == ["inductor"], framelift.list_backends()
try:
    framelift.compile(lambda x: x + 1, backend="cudagraphs")
except ValueError as error:
    print(error)
assert "torch._dynamo" not in sys.modules
import torch._dynamo
assert "cudagraphs" in framelift.list_backends()
framelift.compile(lambda x: x + 1, backend="cudagraphs")(torch.ones(2))
"""


@pytest.fixture
def dynamo() -> Any:
    import torch._dynamo

    return torch._dynamo


@pytest.fixture
def registered(dynamo: Any) -> Iterator[str]:
    """A backend that was registered with torch."""

    def from_torchs_registry(module: Any, example_inputs: Any) -> Any:
        return module.forward

    name = "from_torchs_registry"
    if name not in dynamo.list_backends():
        dynamo.register_backend(from_torchs_registry, name)
    yield name


def test_what_was_registered_with_torch(dynamo: Any, registered: str) -> None:
    assert lookup(registered).function is dynamo.lookup_backend(registered)
    assert lookup(registered) == lookup(registered) == lookup(dynamo.lookup_backend(registered))
    assert registered in list_backends()


@pytest.mark.parametrize("name", ["cudagraphs", "aot_eager_decomp_partition", "aot_eager_default_partitioner"])
def test_backends_of_torch(dynamo: Any, name: str) -> None:
    function = lambda x, i: torch.add(x, x, alpha=i).sum() * x.shape[0]  # noqa: E731
    lifted = framelift.compile(function, backend=name)
    for n in (5, 6, 7, 1, 0):
        results = []
        for each in (function, lifted):
            x = torch.arange(float(n)).requires_grad_()
            result = each(x, n)
            result.backward()
            results.append([result.detach(), x.grad])
        assert_same(*results)


def test_ours_come_first(dynamo: Any) -> None:
    for name in ("eager", "aot_eager", "inductor"):
        assert lookup(name).function is not dynamo.lookup_backend(name)

    @register_backend(name="aot_eager_default_partitioner_of_ours")
    def backend(module: Any, example_inputs: Any) -> Any:
        return module.forward

    assert lookup("aot_eager_default_partitioner_of_ours").function is backend


def test_listing(dynamo: Any, registered: str) -> None:
    """Ours that are for debugging stay so, whatever torch says of backends of that name."""
    names = Registry().names(("debug", "experimental"))
    assert {"inductor", "cudagraphs", registered} <= set(names) and names == sorted(names)
    assert "eager" not in names and "aot_eager_decomp_partition" not in names
    assert {"eager", "aot_eager_decomp_partition"} <= set(list_backends(exclude_tags=None))


def test_the_nearest_name(dynamo: Any) -> None:
    with pytest.raises(ValueError, match="unknown backend 'cudagraph': did you mean 'cudagraphs'") as caught:
        lookup("cudagraph")
    assert "import" not in str(caught.value)


def test_torchs_compiler_is_not_loaded_for_it() -> None:
    """The error says what to import. In a process of its own, where nothing has loaded it."""
    done = subprocess.run([sys.executable, "-c", NOT_LOADED], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "unknown backend 'cudagraphs'" in done.stdout and "`import torch._dynamo`" in done.stdout
