"""A torch without some of the names framelift knows: it is imported, and what needs them runs in Python."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
import torch.fx.experimental.symbolic_shapes

from framelift import torch_names
from framelift.torch_names import TORCH_NAMES, NotInTorch, is_absent
from tests.lacking_torch import private_uses

USES = private_uses()
# C++ of torch's own ends the process without these.
TORCH_NEEDS = ["torch._C", "torch._C._get_dispatch_mode"]
FINE = ("captured", "told", "nothing was removed", "torch does not work")
LOADING = sorted({use.name for use in USES if use.loading} - {*TORCH_NEEDS})
ASKED = sorted({use.name for use in USES if use.name.startswith("torch._C.") and not use.loading} - {*TORCH_NEEDS})


def outcomes(groups: list[list[str]]) -> list[str]:
    process = subprocess.run(
        [sys.executable, "-m", "tests.lacking_torch"],
        input="\n".join(map(" ".join, groups)),
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )
    return process.stdout.splitlines()


def test_this_torch_has_all() -> None:
    assert TORCH_NAMES.lacking() is None


def test_private_names_are_imported_where_a_module_is_loaded() -> None:
    """Only imports have stand-ins for what is not there."""
    read = [use for use in USES if use.loading and not use.imported and "._" in use.name.replace(".__", ".")]
    assert [f"{use.place} {use.name}" for use in read if not use.name.endswith("__")] == []


def test_the_reader_sees_them() -> None:
    assert {"torch._C._set_grad_enabled", "torch._guards.Source", "torch._C._nn"} <= {*LOADING}
    assert {"torch._C._len_torch_dispatch_stack", "torch._C._dispatch_keys"} <= {*ASKED}


def test_names_that_are_read_while_loading() -> None:
    """All of them, some at a time: none keeps framelift from being imported, or changes a result."""
    check_without([LOADING[start::8] for start in range(8)])


ALONE = """
    torch._C._set_sdp_use_flash torch._C._get_mkldnn_enabled torch._functorch.vmap.vmap_impl
    torch._compile._disable_dynamo torch._higher_order_ops.wrap.tag_activation_checkpoint
    torch.fx._lazy_graph_module._LazyGraphModule torch.utils._sympy.functions.CleanDiv
    torch.utils._sympy.printers.PythonPrinter torch._check_value
""".split()


def test_what_is_not_needed_is_not_missed() -> None:
    assert outcomes([[name] for name in ALONE]) == ["captured"] * len(ALONE)


def test_names_that_are_asked_for_each_capture() -> None:
    check_without([ASKED[start::12] for start in range(12)])


def check_without(groups: list[list[str]]) -> None:
    found = outcomes(groups)
    assert len(found) == len(groups) and "told" in found
    wrong = [(outcome, names) for names, outcome in zip(groups, found, strict=True) if outcome not in FINE]
    assert wrong == []


def test_a_stand_in_is_nothing() -> None:
    absent = TORCH_NAMES("torch.overrides", fromlist=("never_was", "has_torch_function"))
    gone = absent.never_was
    assert absent.has_torch_function is torch.overrides.has_torch_function
    assert is_absent(gone) and not is_absent(torch.Tensor)
    assert not isinstance(3, gone) and gone not in (torch.add, 3)
    with pytest.raises(NotInTorch, match=r"torch\.overrides\.never_was is not in torch 2\."):
        gone()
    with pytest.raises(NotInTorch):
        bool(gone.member)
    with pytest.raises(ZeroDivisionError):
        try:
            1 / 0
        except gone:
            pass


@pytest.fixture(autouse=True)
def without_traces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TORCH_NAMES, "_stand_ins", {})


def test_a_module_that_is_not_there() -> None:
    assert is_absent(TORCH_NAMES("torch._never.was", fromlist=("name",)).name)
    assert "torch._never.was.name" in str(TORCH_NAMES.lacking())


def test_other_modules_are_imported_as_ever() -> None:
    with pytest.raises(ModuleNotFoundError):
        TORCH_NAMES("never_was", fromlist=("name",))
    assert TORCH_NAMES("os.path", fromlist=("join",)).join is __import__("os").path.join


def test_everything_is_told_in_one_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TORCH_NAMES, "unfit", "it has no tensors")
    said = TORCH_NAMES.lacking()
    assert said is not None and torch_names.torch_version() in said and said.endswith("it has no tensors")
