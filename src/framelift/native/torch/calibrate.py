"""Makes torch known to the native core: where it keeps tensor metadata, and which state guards depend on.

The core is built without torch. `ensure()`, called before the first guard tree is built, measures where this process's
torch keeps things, compares what the core reads with what Python says over tensors of many kinds, and leaves to
Python whatever was not found or does not agree: slower, and right.
"""

from __future__ import annotations

import contextlib
import datetime
import sys
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch

from framelift.native import core
from framelift.native.switches import READ_GETTERS
from framelift.native.torch.tensor_operators import replaced_operators, same_operators
from framelift.native.torch.tensor_spec import TensorSpec

# Tensors with other dispatch keys (sparse, nested, functorch, subclasses that dispatch in Python, ...) may keep or
# compute their metadata elsewhere: those are read by Python.
PLAIN_KEYS = (
    *("CPU", "CUDA", "HIP", "MPS", "XPU", "Meta"),
    *("AutogradCPU", "AutogradCUDA", "AutogradMPS", "AutogradXPU", "AutogradMeta"),
    *("AutocastCPU", "AutocastCUDA", "AutocastMPS", "AutocastXPU"),
    *("ADInplaceOrView", "Conjugate", "Negative"),
)
VALUE_TYPES = (
    *(torch.dtype, torch.device, torch.layout, torch.memory_format, torch.qscheme, torch.Size),
    *(torch.finfo, torch.iinfo, torch.nn.attention.SDPBackend),
    *(datetime.date, datetime.timedelta),
    # Up to torch 2.11 nothing can hold a generator weakly; guards keep it then, as they keep values.
    *(() if torch.Generator.__weakrefoffset__ else (torch.Generator,)),
)
# Others (quantized, sub-byte, half complex: some warn when they are made) are read by Python.
DTYPES = (
    *("float16", "bfloat16", "float32", "float64", "complex64", "complex128", "bool"),
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
)


def tensor_facts(tensor: torch.Tensor) -> TensorSpec:
    """What Python says about a tensor, without its `__torch_function__` being asked."""
    with torch._C.DisableTorchFunction():
        sized = not tensor.is_nested
        return TensorSpec(
            type(tensor),
            torch._C._dispatch_keys(tensor).raw_repr(),
            tensor.dtype,
            tensor.device,
            tensor.requires_grad,
            _plain(tensor.size()) if sized else None,
            _plain(tensor.stride()) if sized and tensor.layout is torch.strided else None,
            tensor.is_leaf,
            tensor.layout,
        )


def tensor_spec(tensor: torch.Tensor) -> TensorSpec:
    """What a guard on `tensor` asks by default: everything but whether it is a leaf."""
    return tensor_facts(tensor)._replace(is_leaf=None)


def _plain(sizes: Any) -> tuple[int | None, ...]:
    return tuple(size if type(size) is int else None for size in sizes)


def tensors_overlap(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether the spans of the elements of two tensors intersect; tensors without memory go by their storage."""
    with torch._C.DisableTorchFunction():
        if any(tensor.layout is not torch.strided or tensor.is_nested for tensor in (a, b)):
            return a is b
        first, second = _span(a), _span(b)
        return first[0] < second[1] and second[0] < first[1] and first[0] != first[1] and second[0] != second[1]


def _span(tensor: torch.Tensor) -> tuple[int, int]:
    storage = tensor.untyped_storage()
    base = storage.data_ptr() or storage._cdata
    start = base + tensor.storage_offset() * tensor.element_size()
    if tensor.numel() == 0:
        return start, start
    last = sum((size - 1) * stride for size, stride in zip(tensor.size(), tensor.stride(), strict=True))
    return start, start + (last + 1) * tensor.element_size()


def ensure() -> bool:
    """Calibrates once per process; whether tensors are read natively."""
    info = core.tensor_access_info()
    if not info["registered"]:
        _calibrate_tensors()
        _calibrate_state()
        info = core.tensor_access_info()
    return bool(info["native"])


# ---- tensors ----


def _calibrate_tensors() -> None:
    keys = 0
    for name in PLAIN_KEYS:
        key = getattr(torch._C.DispatchKey, name, None)
        keys |= torch._C.DispatchKeySet(key).raw_repr() if key is not None else 0
    core.register_tensors(
        torch._C.TensorBase,
        (torch.Tensor, torch.nn.Parameter),
        tensor_facts,
        tensors_overlap,
        VALUE_TYPES,
        keys,
        _device_codes(),
    )
    with _no_modes():
        probes = [_probe(tensor, keys) for tensor in _varied_tensors()]
        if core.calibrate_tensors(torch_libraries(), probes) is not None:
            return
        core.set_dtype_codes(_dtype_codes())
        _self_test()


@contextlib.contextmanager
def _no_modes() -> Iterator[None]:
    """Tensors are made as without the user's modes (a default device among them), whoever calls first."""
    with torch.inference_mode(False), torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
        yield


def torch_libraries() -> list[str]:
    """The files that hold torch's C and C++ symbols."""
    folder = Path(torch.__file__).parent / "lib"
    suffix = "dylib" if sys.platform == "darwin" else "so"
    return [str(folder / f"lib{name}.{suffix}") for name in ("c10", "torch_cpu", "torch_python")]


def _device_codes() -> dict[str, int]:
    members: dict[str, Any] = torch._C._autograd.DeviceType.__members__
    return {name.lower(): int(value) for name, value in members.items()}


def _dtype_codes() -> dict[torch.dtype, tuple[int, int]]:
    dtypes = {value for name, value in vars(torch).items() if name in DTYPES or name.startswith("float8_")}
    tensors = {dtype: torch.empty(0, dtype=dtype, device="cpu") for dtype in dtypes}
    return {dtype: (core.tensor_read(tensor)[1], dtype.itemsize) for dtype, tensor in tensors.items()}


class _Subclass(torch.Tensor):
    """A subclass as users write them."""


def _varied_tensors() -> list[torch.Tensor]:
    base = torch.zeros(4, 6, device="cpu")
    return [
        torch.zeros(3, device="cpu"),
        torch.zeros(2, 3, device="cpu", requires_grad=True),
        torch.nn.Parameter(torch.zeros(2, device="cpu")),
        torch.zeros(2, 5, 7, dtype=torch.int8, device="cpu"),
        torch.zeros((), dtype=torch.float64, device="cpu"),
        torch.zeros(2, 1, 3, 1, 2, 4, dtype=torch.bool, device="cpu"),
        torch.zeros(1, 2, 3, 4, 5, dtype=torch.int64, device="cpu").permute(4, 0, 2, 1, 3),
        torch.empty(2, 9, device="meta", dtype=torch.bfloat16),
        base.t()[1:3],
        base[1:, ::2],
        torch.zeros(3, 2, 4, dtype=torch.float16, device="cpu").transpose(0, 2),
        torch.zeros(2, 2, device="cpu").to_sparse(),
        torch.view_as_complex(torch.zeros(3, 2, device="cpu")).conj(),
        torch.view_as_complex(torch.zeros(3, 2, device="cpu")).conj().imag,
        torch.zeros(3, 2, device="cpu").as_subclass(_Subclass),
        torch.frombuffer(bytearray(8), dtype=torch.uint8),  # its memory is not its allocator's
        *_inference(),
    ]


def _inference() -> list[torch.Tensor]:
    with torch.inference_mode():
        return [torch.zeros(5, 2, dtype=torch.int16, device="cpu")]


def _probe(tensor: torch.Tensor, plain_keys: int) -> tuple[Any, ...]:
    spec = tensor_facts(tensor)
    plain = not (spec.keys or 0) & ~plain_keys and len(spec.sizes or ()) <= 8
    storage = tensor.untyped_storage() if plain else None
    return (
        tensor,
        tensor._cdata,
        spec.keys,
        storage._cdata if storage is not None else 0,
        storage.data_ptr() if storage is not None else 0,
        spec.sizes,
        spec.strides or (),
        plain,
    )


def _self_test() -> None:
    """Native reads must equal Python's on tensors calibration has not seen; what does not is given up."""
    if not _reads_agree():
        core.restrict_tensors("metadata")
        core.set_dtype_codes(_dtype_codes())
    if not _reads_agree():
        core.restrict_tensors("native")
        return
    for tensor in _varied_tensors():
        spec, read = tensor_facts(tensor), core.tensor_read(tensor)
        if not isinstance(read, int):
            if read[4] is not None and read[4] != spec.requires_grad:
                core.restrict_tensors("requires_grad")
            if read[7] is not None and read[7] != spec.is_leaf:
                core.restrict_tensors("is_leaf")
    first = torch.zeros(4, 4, device="cpu")
    pairs = [(first, first), (first[:2], first[2:]), (first, first[2:]), (first.t(), first[3]), (first, torch.zeros(1))]
    if any(core.tensors_overlap(a, b) != tensors_overlap(a, b) for a, b in pairs):
        core.restrict_tensors("storage")


def _reads_agree() -> bool:
    dtypes, devices = _dtype_numbers(), _device_codes()
    for tensor in _varied_tensors():
        spec, read = tensor_facts(tensor), core.tensor_read(tensor)
        if isinstance(read, int):  # not plain: only the key set is read
            if read != spec.keys:
                return False
            continue
        keys, dtype, device_type, device_index, _, sizes, strides, _ = read
        index = -1 if spec.device.index is None else spec.device.index
        expected = (spec.keys, dtypes.get(spec.dtype, dtype), devices[spec.device.type], index)
        if (keys, dtype, device_type, device_index) != expected or (sizes, strides) != (spec.sizes, spec.strides):
            return False
    return len(set(dtypes.values())) == len(dtypes)


def _dtype_numbers() -> dict[torch.dtype, int]:
    with _no_modes():
        return {dtype: code for dtype, (code, _) in _dtype_codes().items()}


# ---- state ----


class StatePart(NamedTuple):
    """One part of torch's state: its name in words, how Python reads it, how two readings compare (None: ==), the
    part that covers it if that one is read natively, and whether it may be read natively itself."""

    name: str
    get: Callable[[], Any]
    same: Callable[[Any, Any], bool] | None = None
    covered_by: str | None = None
    native: bool = True


class ModeStack(tuple[Any, ...]):
    """Active modes, outermost first: weak references, or the device of a default-device mode."""

    def __str__(self) -> str:
        return ", ".join(map(_mode_words, self)) or "none"


def _mode_words(token: Any) -> str:
    if isinstance(token, str):
        return f"default device {token}"
    mode = token()
    return "a mode that is gone" if mode is None else type(mode).__qualname__


def _mode_token(mode: Any) -> Any:
    if type(mode) is torch.utils._device.DeviceContext:
        return str(mode.device)
    return weakref.ref(mode)


def _same_modes(old: ModeStack, new: ModeStack) -> bool:
    return len(old) == len(new) and all(map(_same_mode, old, new))


def _same_mode(old: Any, new: Any) -> bool:
    if isinstance(old, str) or isinstance(new, str):
        return type(old) is type(new) and old == new
    return old() is not None and old() is new()


def _function_modes() -> ModeStack:
    count = torch._C._len_torch_function_stack()
    return ModeStack(_mode_token(torch._C._get_function_stack_at(i)) for i in range(count))


def _dispatch_modes() -> ModeStack:
    count = torch._C._len_torch_dispatch_stack()
    return ModeStack(_mode_token(torch._C._get_dispatch_stack_at(i)) for i in range(count))


def _function_override() -> str:
    if torch._C._is_torch_function_all_disabled():
        return "all off"
    return "on" if torch._C._is_torch_function_enabled() else "off for subclasses"


def _dispatch_keys() -> tuple[int, int]:
    included, excluded = torch._C._dispatch_tls_local_include_set(), torch._C._dispatch_tls_local_exclude_set()
    return included.raw_repr(), excluded.raw_repr()


def _quietly(get: Callable[..., Any], *args: Any) -> Callable[[], Any]:
    """Some of torch's getters ask the active torch-function modes; a guard must not run those."""

    def read() -> Any:
        with torch._C.DisableTorchFunction():
            return get(*args)

    return read


def _context(name: str, getter: str) -> list[StatePart]:
    get = getattr(torch._C, getter, None)
    return [] if get is None else [StatePart(name, _quietly(get))]


def state_parts() -> list[StatePart]:
    """What a captured graph may depend on besides its inputs."""
    devices = ["cpu", "cuda"]
    if torch.accelerator.is_available():
        accelerator = torch.accelerator.current_accelerator()
        if accelerator is not None and accelerator.type not in devices:
            devices.append(accelerator.type)
    parts = [
        # Read first: the getters below switch it.
        StatePart("torch function override", _function_override),
        StatePart("grad mode", _quietly(torch.is_grad_enabled)),
        StatePart("dispatch keys", _dispatch_keys),
        StatePart("inference mode", _quietly(torch.is_inference_mode_enabled), None, "dispatch keys"),
        StatePart("torch function modes", _function_modes, _same_modes),
        StatePart("dispatch modes", _dispatch_modes, _same_modes),
        StatePart("operators of tensors", replaced_operators, same_operators),
        StatePart("default dtype", _quietly(torch.get_default_dtype)),
        StatePart("autocast cache", _quietly(torch.is_autocast_cache_enabled)),
    ]
    for device in devices:
        enabled, dtype = _quietly(torch.is_autocast_enabled, device), _quietly(torch.get_autocast_dtype, device)
        parts.append(StatePart(f"autocast on {device}", enabled, None, "dispatch keys"))
        parts.append(StatePart(f"autocast dtype of {device}", dtype))
    flags = {
        "deterministic algorithms": "_get_deterministic_algorithms",
        "deterministic warn-only": "_get_deterministic_algorithms_warn_only",
        "filling of uninitialized memory": "_get_deterministic_fill_uninitialized_memory",
        "fp16 reduction on cpu": "_get_cpu_allow_fp16_reduced_precision_reduction",
        "reduced precision in math attention": "_get_math_sdp_allow_fp16_bf16_reduction",
        "flash attention": "_get_flash_sdp_enabled",
        "memory-efficient attention": "_get_mem_efficient_sdp_enabled",
        "math attention": "_get_math_sdp_enabled",
        "cudnn attention": "_get_cudnn_sdp_enabled",
        "overrideable attention": "_get_overrideable_sdp_enabled",
        "cudnn": "_get_cudnn_enabled",
        "mkldnn": "_get_mkldnn_enabled",
        "fp16 reduction in cublas": "_get_cublas_allow_fp16_reduced_precision_reduction",
        "bf16 reduction in cublas": "_get_cublas_allow_bf16_reduced_precision_reduction",
        "fp16 accumulation in cublas": "_get_cublas_allow_fp16_accumulation",
    }
    for name, getter in flags.items():
        parts += _context(name, getter)
    return parts + _precision_parts()


def _precision_parts() -> list[StatePart]:
    """Kernels made for a GPU have its precision built in; on the CPU the operations read it as they run."""
    get = getattr(torch._C, "_get_fp32_precision_getter", None)
    if get is None:  # torch before per-backend precisions
        return _context("fp32 precision of cuda matmul", "_get_cublas_allow_tf32")
    if not torch.cuda.is_available():
        return []

    def precision(operation: str) -> str:
        found: str = get("cuda", operation)
        return "ieee" if found == "none" else found  # they compute the same

    return [
        StatePart(f"fp32 precision of cuda {operation}", _quietly(precision, operation))
        for operation in ("matmul", "conv")
    ]


def _calibrate_state() -> None:
    core.read_getters(bool(READ_GETTERS.from_environment()))
    parts = state_parts()
    wrong = _register_state(parts)
    if not wrong.isdisjoint(core.getters_read()):
        core.read_getters(False)  # who was wrong about one is not believed about others
        wrong = _register_state(parts)
    if wrong:
        _register_state([part._replace(native=part.name not in wrong) for part in parts])


def _register_state(parts: list[StatePart]) -> set[str]:
    """Registers the parts; those of them whose native reading is wrong."""
    core.register_state(torch_libraries(), [tuple(part) for part in parts])
    return _wrong_state_parts(parts)


def _wrong_state_parts(parts: list[StatePart]) -> set[str]:
    """Parts whose native reading contradicts Python's, or does not see a change of this thread's state."""
    native, wrong = core.native_state(), set()
    dtypes = _dtype_numbers() if core.tensor_access_info()["native"] else {}
    for part in parts:
        value = part.get()
        if part.name in native and isinstance(value, bool) and native[part.name] != value:
            wrong.add(part.name)
        if part.name in native and isinstance(value, torch.dtype) and native[part.name] != dtypes.get(value):
            wrong.add(part.name)
    if not _sees(torch._C.DisableTorchFunctionSubclass):
        wrong.add("torch function override")
    with torch._C.DisableTorchFunction():  # the user's modes are not told of what follows
        return wrong | {name for name, change in _harmless_changes().items() if not _sees(change)}


def _harmless_changes() -> dict[str, Callable[[], contextlib.AbstractContextManager[Any]]]:
    """Changes of this thread's state that nobody else can see."""
    return {
        "grad mode": lambda: torch.set_grad_enabled(not torch.is_grad_enabled()),
        "dispatch keys": lambda: torch.inference_mode(not torch.is_inference_mode_enabled()),
        "torch function modes": torch.overrides.BaseTorchFunctionMode,
    }


def _sees(change: Callable[[], contextlib.AbstractContextManager[Any]]) -> bool:
    before = core.torch_state()
    with change():
        changed = not before.matches()
    return changed and before.matches()
