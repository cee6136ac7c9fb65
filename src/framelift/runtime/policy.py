"""What is worth lifting: which frames below a break, and in which state of torch anything at all."""

from __future__ import annotations

import gc
import sysconfig
from collections.abc import Iterable
from itertools import chain, islice
from types import CodeType, FunctionType, ModuleType
from typing import Any, cast

import torch
from torch.fx._symbolic_trace import is_fx_symbolic_tracing
from torch.fx.experimental.proxy_tensor import get_proxy_mode
from torch.utils._device import DeviceContext

from framelift.controls import disabled_mark
from framelift.fallbacks import DISPATCH_MODE, FUNCTION_MODE, OTHER_COMPILER, TRANSFORMED, Fallback
from framelift.values.core.lookup import is_subclass

_STDLIB = tuple({sysconfig.get_path("stdlib") + "/", sysconfig.get_path("platstdlib") + "/"})
_SITE = ("/site-packages/", "/dist-packages/")
_TORCH = torch.__path__[0] + "/"
_OWN = __file__.removesuffix("runtime/policy.py")

#: How many steps are taken from a frame to find tensors: where any frame might be lifted ...
STEPS_IN_SIGHT = 2
#: ... and where a function that was lifted goes on.
STEPS_OF_A_REST = 4
# At so many things one holds, and at so many in one step.
_WIDTH, _MOST = 16, 256


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


def has_tensors_in_sight(
    code: CodeType, function: FunctionType, slots: Iterable[Any], steps: int = STEPS_IN_SIGHT
) -> bool:
    """Whether tensors, or torch itself, can be reached from a frame in a few steps. Runs no code of the user's."""
    named = [*map(function.__globals__.get, code.co_names)]
    if any(_is_torch(obj) or _is_tensor(obj) for obj in named):
        return True
    reached = [*slots, *_contents(function)]
    for _ in range(steps):
        if any(map(_is_tensor, reached)):
            return True
        reached = [*islice(chain.from_iterable(map(_held, reached)), _MOST)]
    return any(map(_is_tensor, reached))


def _is_tensor(obj: Any) -> bool:
    return is_subclass(type(obj), torch.Tensor) or is_subclass(type(obj), torch.nn.Module)


def _held(obj: Any) -> Iterable[Any]:
    """Some of what an object holds."""
    kind = type(obj)
    if kind is list or kind is tuple:  # not `in`: a metaclass may have an `==`
        return cast("list[Any]", obj[:_WIDTH])
    if kind is dict:
        return [*obj.values()][:_WIDTH]  # at once: another thread may change it
    if kind is FunctionType:
        return _contents(obj)
    if is_subclass(kind, type) or is_subclass(kind, ModuleType):
        return ()
    # Not by way of `__dict__`: asked for it, an instance makes one, and is slower ever after.
    held = gc.get_referents(obj)[:_WIDTH]
    return chain.from_iterable(_held(item) if type(item) is dict else (item,) for item in held)


def _contents(function: FunctionType) -> list[Any]:
    return [cell.cell_contents for cell in function.__closure__ or () if _is_set(cell)]


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


def foreign_mode() -> Fallback | None:
    """Why lifted functions act as their originals just now: somebody else is watching the operations they run."""
    if torch.compiler.is_compiling() or is_fx_symbolic_tracing() or torch._C._get_tracing_state() is not None:
        return OTHER_COMPILER
    if torch._C._len_torch_dispatch_stack():
        return DISPATCH_MODE if get_proxy_mode() is None else OTHER_COMPILER
    if any(type(_function_mode(i)) is not DeviceContext for i in range(torch._C._len_torch_function_stack())):
        return FUNCTION_MODE
    if torch._C._functorch.peek_interpreter_stack() is not None:
        return TRANSFORMED
    return None


def _function_mode(index: int) -> Any:
    return torch._C._get_function_stack_at(index)
