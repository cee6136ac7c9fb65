"""What is worth lifting: which frames below a break, and in which state of torch anything at all."""

from __future__ import annotations

import gc
import sysconfig
from types import CodeType, FunctionType, ModuleType
from typing import Any

import torch
from torch.fx._symbolic_trace import is_fx_symbolic_tracing
from torch.utils._device import DeviceContext

from framelift.controls import disabled_mark
from framelift.values.lookup import has_instance_dict, is_subclass

_STDLIB = tuple({sysconfig.get_path("stdlib") + "/", sysconfig.get_path("platstdlib") + "/"})
_SITE = ("/site-packages/", "/dist-packages/")
_TORCH = torch.__path__[0] + "/"
_OWN = __file__.removesuffix("runtime/policy.py")

# A container is looked into this deep, and at so many of its items.
_DEPTH, _WIDTH = 2, 16


def worth_lifting(code: CodeType, function: FunctionType) -> bool:
    """User code and libraries, but not the standard library, torch, framelift itself or what the user disabled."""
    filename = code.co_filename
    if filename.startswith((_TORCH, _OWN, "<frozen")):
        return False
    if filename.startswith(_STDLIB) and not any(part in filename for part in _SITE):
        return False
    if filename.startswith("<") and str(function.__globals__.get("__name__")).startswith("namedtuple_"):
        return False  # the constructor that the standard library writes for a named tuple
    return disabled_mark(function) is None


def is_cut_off(function: FunctionType) -> bool:
    """Whether a frame and all it calls are left alone: the wrappers that torch's own compiler and its `disable` make.

    That compiler would see our frames among those of the function it compiles.
    """
    return bool(function.__dict__.get("_torchdynamo_disable")) or "_torchdynamo_orig_callable" in function.__dict__


def has_tensors_in_sight(code: CodeType, function: FunctionType, slots: tuple[Any, ...]) -> bool:
    """Whether tensors, or torch itself, can be reached from a frame in a step or two. Runs no code of the user's."""
    if any(_shows_tensors(slot, _DEPTH) for slot in slots):
        return True
    names = function.__globals__
    if any(_is_torch(names.get(name)) or _shows_tensors(names.get(name), 0) for name in code.co_names):
        return True
    return any(_shows_tensors(cell.cell_contents, _DEPTH) for cell in function.__closure__ or () if _is_set(cell))


def _shows_tensors(obj: Any, depth: int) -> bool:
    kind = type(obj)
    if is_subclass(kind, torch.Tensor) or is_subclass(kind, torch.nn.Module):
        return True
    if depth == 0:
        return False
    if kind is list or kind is tuple:  # not `in`: a metaclass may have an `==`
        return any(_shows_tensors(item, depth - 1) for item in obj[:_WIDTH])
    if kind is dict:
        return any(_shows_tensors(item, depth - 1) for item in list(obj.values())[:_WIDTH])
    if is_subclass(kind, type) or is_subclass(kind, ModuleType):
        return False
    if kind is FunctionType or not has_instance_dict(kind):
        return False
    # Not by way of `__dict__`: asked for it, an instance makes one, and is slower ever after.
    held = gc.get_referents(obj)[:_WIDTH]
    return any(_shows_tensors(item, 1 if type(item) is dict else 0) for item in held)


def _is_torch(obj: Any) -> bool:
    if type(obj) is not ModuleType:
        return False
    name = obj.__dict__.get("__name__")
    return type(name) is str and name.partition(".")[0] == "torch"


def _is_set(cell: Any) -> bool:
    try:
        return cell.cell_contents is not NotImplemented
    except ValueError:
        return False


def foreign_mode() -> str | None:
    """Why lifted functions act as their originals just now: somebody else is watching the operations they run."""
    if torch._C._len_torch_dispatch_stack():
        return "a torch dispatch mode is active"
    if any(type(_function_mode(i)) is not DeviceContext for i in range(torch._C._len_torch_function_stack())):
        return "a torch function mode is active"
    if torch._C._functorch.peek_interpreter_stack() is not None:
        return "a torch.func transform is active"
    if torch.compiler.is_compiling() or is_fx_symbolic_tracing() or torch._C._get_tracing_state() is not None:
        return "another compiler is tracing"
    return None


def _function_mode(index: int) -> Any:
    return torch._C._get_function_stack_at(index)
