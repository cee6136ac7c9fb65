"""Snapshots of torch's state see every change of it, and say which."""

from __future__ import annotations

import contextlib
import gc
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="these tests also run on interpreters without torch")

from framelift.native import core  # noqa: E402
from framelift.native.torch import calibrate  # noqa: E402
from tests.native.guards_builder import Nodes, function  # noqa: E402

calibrate.ensure()

Change = Callable[[], contextlib.AbstractContextManager[Any]]


@contextlib.contextmanager
def switched(setter: Callable[[Any], Any], value: Any, back: Any) -> Iterator[None]:
    setter(value)
    try:
        yield
    finally:
        setter(back)


class Mode(torch.overrides.TorchFunctionMode):
    pass


class Dispatch(torch.utils._python_dispatch.TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def flag(getter: str, setter: str) -> Change:
    get, put = getattr(torch._C, getter), getattr(torch._C, setter)
    return lambda: switched(put, not get(), get())


def deterministic(value: bool, warn: bool = False) -> Change:
    return lambda: switched(lambda on: torch.use_deterministic_algorithms(on, warn_only=on and warn), value, False)


CHANGES: dict[str, Change] = {
    "grad mode was on, now off": torch.no_grad,
    "grad mode was on, now off; inference mode was off, now on": torch.inference_mode,
    "autocast on cpu was off, now on": lambda: torch.autocast("cpu", dtype=torch.get_autocast_dtype("cpu")),
    "autocast on cpu was off, now on; autocast dtype of cpu was torch.bfloat16, now torch.float16": lambda: (
        torch.autocast("cpu", dtype=torch.float16)
    ),
    "autocast dtype of cpu was torch.bfloat16, now torch.float16": lambda: switched(
        lambda dtype: torch.set_autocast_dtype("cpu", dtype), torch.float16, torch.bfloat16
    ),
    "autocast dtype of cuda was torch.float16, now torch.bfloat16": lambda: switched(
        lambda dtype: torch.set_autocast_dtype("cuda", dtype), torch.bfloat16, torch.float16
    ),
    "autocast cache was on, now off": lambda: switched(torch.set_autocast_cache_enabled, False, True),
    "default dtype was torch.float32, now torch.float64": lambda: switched(
        torch.set_default_dtype, torch.float64, torch.float32
    ),
    "torch function modes was none, now default device meta": lambda: torch.device("meta"),
    "torch function modes was none, now Mode": Mode,
    "dispatch modes was none, now Dispatch": Dispatch,
    "torch function override was on, now off for subclasses": torch._C.DisableTorchFunctionSubclass,
    "torch function override was on, now all off": torch._C.DisableTorchFunction,
    "deterministic algorithms was off, now on": deterministic(True),
    "deterministic algorithms was off, now on; deterministic warn-only was off, now on": deterministic(True, True),
    "filling of uninitialized memory was on, now off": flag(
        "_get_deterministic_fill_uninitialized_memory", "_set_deterministic_fill_uninitialized_memory"
    ),
    "fp16 reduction on cpu was off, now on": flag(
        "_get_cpu_allow_fp16_reduced_precision_reduction", "_set_cpu_allow_fp16_reduced_precision_reduction"
    ),
    "reduced precision in math attention was off, now on": flag(
        "_get_math_sdp_allow_fp16_bf16_reduction", "_set_math_sdp_allow_fp16_bf16_reduction"
    ),
    "flash attention was on, now off": flag("_get_flash_sdp_enabled", "_set_sdp_use_flash"),
    "memory-efficient attention was on, now off": flag("_get_mem_efficient_sdp_enabled", "_set_sdp_use_mem_efficient"),
    "math attention was on, now off": flag("_get_math_sdp_enabled", "_set_sdp_use_math"),
    "cudnn attention was on, now off": flag("_get_cudnn_sdp_enabled", "_set_sdp_use_cudnn"),
    "cudnn was on, now off": flag("_get_cudnn_enabled", "_set_cudnn_enabled"),
    "mkldnn was on, now off": flag("_get_mkldnn_enabled", "_set_mkldnn_enabled"),
    "fp16 reduction in cublas was (True, True), now (False, True)": lambda: switched(
        lambda on: torch._C._set_cublas_allow_fp16_reduced_precision_reduction(on, True), False, True
    ),
    "bf16 reduction in cublas was (True, True), now (False, True)": lambda: switched(
        lambda on: torch._C._set_cublas_allow_bf16_reduced_precision_reduction(on, True), False, True
    ),
    "fp16 accumulation in cublas was off, now on": flag(
        "_get_cublas_allow_fp16_accumulation", "_set_cublas_allow_fp16_accumulation"
    ),
}


@pytest.mark.parametrize("text", CHANGES)
def test_changes_are_seen(text: str) -> None:
    state = core.torch_state()
    for _ in range(2):
        assert state.matches() and state.describe() is None
    if text.startswith("fp16 reduction on cpu"):
        try:
            torch._C._set_cpu_allow_fp16_reduced_precision_reduction(True)
        except RuntimeError:
            pytest.skip("this CPU has no fp16 arithmetic")
        torch._C._set_cpu_allow_fp16_reduced_precision_reduction(False)
    with CHANGES[text]():
        assert not state.matches()
        assert state.describe() == text
        inside = core.torch_state()
        assert inside.matches() and inside.describe() is None
    assert state.matches() and state.describe() is None
    assert not inside.matches()


def test_default_devices_are_told_apart() -> None:
    with torch.device("meta"):
        meta = core.torch_state()
    with torch.device("cpu"):
        assert not meta.matches()
        assert meta.describe() == "torch function modes was default device meta, now default device cpu"
    with torch.device("meta"):
        assert meta.matches()
    torch.set_default_device("meta")
    try:
        assert meta.matches()
    finally:
        torch.set_default_device(None)
    assert not meta.matches()


def test_modes_are_told_apart_and_not_held() -> None:
    first, second = Mode(), Mode()
    with first:
        state = core.torch_state()
        assert state.matches()
    with second:
        assert not state.matches()
    with first, second:
        assert not state.matches()
    with first:
        assert state.matches()
    import weakref

    gone = weakref.ref(first)
    del first
    gc.collect()
    assert gone() is None
    with second:
        assert not state.matches()
        assert state.describe() == "torch function modes was a mode that is gone, now Mode"


def test_state_of_a_tree() -> None:
    nodes = Nodes()
    nodes.arg()
    tree = nodes.tree(1, core.torch_state())
    assert tree.check_strict((1,), function) is not None
    with torch.no_grad():
        assert tree.check_strict((1,), function) is None
        assert tree.explain((1,), function) == (-1, core.FAILED_STATE, "grad mode was on, now off")
    assert tree.state.values["grad mode"] is True
    with pytest.raises(TypeError):
        core.GuardTree([], [], 0, 0, 3)


def test_threads_have_state_of_their_own() -> None:
    seen = []
    state = core.torch_state()
    with torch.no_grad():
        off = core.torch_state()

        def work() -> None:
            seen.append((state.matches(), off.matches()))
            with torch.no_grad():
                seen.append((state.matches(), off.matches()))

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert seen == [(True, False), (False, True)]


@pytest.mark.parametrize(
    "context",
    [
        *(torch.no_grad, torch.inference_mode, Mode, Dispatch, torch._C.DisableTorchFunction),
        *(lambda: torch.device("meta"), lambda: torch.autocast("cpu"), torch._subclasses.FakeTensorMode),
        lambda: switched(torch.set_default_dtype, torch.float64, torch.float32),
    ],
)
def test_calibration_whatever_the_state(context: Change) -> None:
    before = core.tensor_access_info()
    natively = set(core.native_state())
    with context():
        calibrate._calibrate_tensors()
        calibrate._calibrate_state()
        assert core.torch_state().matches()
    assert core.tensor_access_info() == before
    assert set(core.native_state()) == natively


def test_references_of_states() -> None:
    state = core.torch_state()
    before = sys.getrefcount(state)
    for _ in range(10_000):
        state.matches()
    for _ in range(100):
        state.describe()
        core.torch_state()
    assert sys.getrefcount(state) == before


ALL_IN_PYTHON = """
import sys, torch
from framelift.native import core
from framelift.native.torch import calibrate
calibrate.ensure()
parts = [tuple(part._replace(native=False)) for part in calibrate.state_parts()]
assert core.register_state(calibrate.torch_libraries(), parts) == []
import pytest
sys.exit(pytest.main([sys.argv[1], "-q", "-p", "no:cacheprovider", "-k", "not python_alone and not calibration"]))
"""


@pytest.mark.slow
def test_python_alone_gives_the_same_answers() -> None:
    done = subprocess.run(
        [sys.executable, "-c", ALL_IN_PYTHON, __file__], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
