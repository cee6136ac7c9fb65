"""The backend that compiles the graph with Inductor."""

from __future__ import annotations

import functools
import shutil
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch._inductor
import torch._inductor.config
from torch._inductor.compile_fx import compile_fx, compile_fx_inner
from torch._inductor.exc import InvalidCxxCompiler
from torch.fx import GraphModule

from framelift.backends.assert_order import asserts_first
from framelift.backends.identities import IdentitiesAreCopies, forgets_copies
from framelift.backends.step_marks import counting_steps
from framelift.backends.tracing import current_symbols, depends_on_data
from framelift.errors import short, unknown

MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")

NO_COMPILER = (
    "no C++ compiler was found: Inductor generates C++ for the CPU and needs g++ or clang++. "
    "Install one, name it in the environment variable CXX, or use backend='aot_eager'"
)


def inductor(
    module: GraphModule,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """The graph compiled by Inductor, for inference or for training as the inputs and torch's modes ask for."""
    changes = {**settings(mode, options), **_precautions(module, example_inputs)}
    if forgets_copies():
        _put_before(changes, "joint_custom_pre_pass", IdentitiesAreCopies())
    keywords: dict[str, Any] = {"config_patches": changes}
    if depends_on_data(module):
        if "_pre_fusion_custom_pass" in changes:  # it takes the place of what `compiling` has set
            changes["_pre_fusion_custom_pass"] = asserts_first(changes["_pre_fusion_custom_pass"])
        keywords["inner_compile"] = functools.partial(_compile_as_presumed, current_symbols())
    try:
        compiled: Callable[..., Any] = compile_fx(module, list(example_inputs), **keywords)
    except Exception as error:  # raised again, whatever it is
        if is_missing_compiler(error):
            raise RuntimeError(NO_COMPILER) from error
        raise
    records = changes.get("triton.cudagraphs", torch._inductor.config.triton.cudagraphs)
    return counting_steps(compiled) if records else compiled


def _compile_as_presumed(shape_env: Any, *args: Any, **kwargs: Any) -> Any:
    """Compile what AOTAutograd traced. Inductor emits checks of what was presumed until here; nothing may be added."""
    shape_env.presumes = False
    return compile_fx_inner(*args, **kwargs)


def _put_before(changes: dict[str, Any], name: str, ours: Callable[..., Any]) -> None:
    """Have a pass run before those that the user asked for."""
    theirs = changes.get(name, getattr(torch._inductor.config, name))
    changes[name] = [ours, *(theirs if isinstance(theirs, list | tuple) else [theirs] if theirs else [])]


def _precautions(module: GraphModule, example_inputs: Sequence[Any]) -> dict[str, Any]:
    """What a graph with subgraphs that is trained needs: Inductor takes memory again that a tensor saved for backward
    still uses, because it does not know that it shares it with another (torch 2.13, so in torch.compile too)."""
    if not module.graph.find_nodes(op="call_function", target=torch.ops.higher_order.invoke_subgraph):
        return {}
    is_trained = torch.is_grad_enabled() and any(getattr(each, "requires_grad", False) for each in example_inputs)
    return {"allow_buffer_reuse": False} if is_trained else {}


def settings(mode: str | None, options: Mapping[str, Any] | None) -> dict[str, Any]:
    """Inductor's settings for a mode or for options of its own.

    >>> settings("reduce-overhead", None)
    {'triton.cudagraphs': True}
    """
    if options:
        return {name.replace("-", "_"): value for name, value in options.items()}
    if mode is None or mode == "default":
        return {}
    return dict(torch._inductor.list_mode_options(mode))


def check_options(mode: str | None, options: Mapping[str, Any]) -> None:
    """Refuses modes and options Inductor does not know, and values of the wrong type."""
    if mode is not None and options:
        raise ValueError("mode and options cannot both be given: a mode is a preset of options")
    if mode is not None and mode not in MODES:
        raise ValueError(unknown("mode", mode, MODES))
    known = torch._inductor.config.get_config_copy()
    for given, value in options.items():
        name = given.replace("-", "_")
        if name not in known:
            public = sorted(word for word in known if word.islower() and not word.startswith("_"))
            raise ValueError(unknown("inductor option", given, public))
        default = known[name]
        if default is not None and value is not None and type(value) is not type(default) and not callable(value):
            kind = type(default).__name__
            raise TypeError(f"inductor option {given!r} is a {kind}, got {short(value)}")


inductor.check_options = check_options  # type: ignore[attr-defined]
inductor.is_own = True  # type: ignore[attr-defined]
inductor.is_bitwise = False  # type: ignore[attr-defined]
inductor.takes_subgraphs = True  # type: ignore[attr-defined]
inductor.reuses_saved = True  # type: ignore[attr-defined]


def is_missing_compiler(error: BaseException) -> bool:
    """Whether an error, or what caused it, is that there is no C++ compiler."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, InvalidCxxCompiler):
            return True
        if isinstance(seen, FileNotFoundError) and shutil.which("g++") is None and shutil.which("clang++") is None:
            return True
        seen = seen.__cause__ or seen.__context__
    return False
