"""Code that the program makes of text: `compile`, `eval`, `exec`; and `locals()`, which such code sees.

Compiling a constant text runs nothing of the user's. The code is traced like a function's, with the given namespaces.
"""

from __future__ import annotations
import __future__

import builtins
import sys
import types
import warnings
from typing import TYPE_CHECKING, Any

from framelift.breaks import FL0102, FL0108, GraphBreak
from framelift.values.containers.dicts import MISSING, DictValue
from framelift.values.core import protocol as py
from framelift.values.core.base import NULL, Value
from framelift.values.core.exceptions import raise_error, raised_from
from framelift.values.core.primitives import primitive
from framelift.values.functions.cells import EMPTY, CellValue
from framelift.values.functions.functions import ClosureValue

if TYPE_CHECKING:
    from framelift.values.core.tracer import TracedFrame, Tracer

_FUTURES = 0
for _name in __future__.all_feature_names:
    _FUTURES |= getattr(__future__, _name).compiler_flag
# Flags that ask for something else than code, or for code that is not run at once.
_ODD_FLAGS = ~_FUTURES
_LONG = 100_000
_OPTIMIZED = 0x1


@primitive(compile)
def _compile(
    tracer: Tracer,
    source: Any,
    filename: Any,
    mode: Any,
    flags: Any = 0,
    dont_inherit: Any = False,
    optimize: Any = -1,
) -> Any:
    plain_flags = tracer.constant(flags)
    if type(plain_flags) is not int or plain_flags & _ODD_FLAGS:
        raise GraphBreak(FL0102, what="compile() with these flags")
    if not py.truth(tracer, dont_inherit):
        plain_flags |= _inherited_flags(tracer)
    options = {"flags": plain_flags, "dont_inherit": True, "optimize": tracer.constant(optimize)}
    return _compiled(tracer, tracer.constant(source), tracer.constant(filename), tracer.constant(mode), **options)


def _inherited_flags(tracer: Tracer) -> int:
    assert tracer.frame is not None
    return tracer.frame.program.canonical.code.co_flags & _FUTURES


def _compiled(tracer: Tracer, source: Any, filename: Any, mode: Any, **options: Any) -> Any:
    if type(source) not in (str, bytes) or type(filename) is not str:
        raise GraphBreak(FL0102, what=f"compile() of {type(source).__name__}")
    if len(source) > _LONG:
        raise GraphBreak(FL0108, what=f"compiling a text of {len(source)} characters")
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            code = compile(source, filename, mode, **options)
        except (SyntaxError, ValueError, TypeError, OverflowError) as error:
            raise raised_from(error) from None
        except (MemoryError, RecursionError):
            raise GraphBreak(FL0102, what="compile() of deeply nested text") from None
    if warned:
        raise GraphBreak(FL0102, what="compile() of text that is warned about")
    return code


# -- running it ------------------------------------------------------------------------------------------------------


@primitive(eval)
def _eval(tracer: Tracer, source: Any, globals: Any = None, locals: Any = None, /) -> Any:
    plain = tracer.constant(source)
    code = plain
    if type(plain) is not types.CodeType:
        text = plain.strip(" \t") if type(plain) is str else plain
        code = _compiled(tracer, text, "<string>", "eval", flags=_inherited_flags(tracer), dont_inherit=True)
    return _run(tracer, "eval", code, globals, locals)


@primitive(exec)
def _exec(tracer: Tracer, source: Any, globals: Any = None, locals: Any = None, /) -> None:
    code = tracer.constant(source)
    if type(code) is not types.CodeType:
        code = _compiled(tracer, code, "<string>", "exec", flags=_inherited_flags(tracer), dont_inherit=True)
    _run(tracer, "exec", code, globals, locals)


def _run(tracer: Tracer, what: str, code: types.CodeType, globals: Any, locals: Any) -> Any:
    if code.co_freevars:
        raise_error(TypeError, f"code object passed to {what}() may not contain free variables")
    if tracer.programs.of(code).is_generator:  # text with `await` in it
        raise GraphBreak(FL0102, what=f"{what}() of code that gives a coroutine")
    assert tracer.frame is not None
    if globals is None:
        globals = tracer.frame.globals
        if locals is None:
            locals = _locals(tracer)
            _refuse_writes(tracer, what, code)
    elif not isinstance(globals, DictValue) or globals.python_type() is not dict:
        raise GraphBreak(FL0102, what=f"{what}() with globals of type {py.type_of(globals).__name__}")
    else:
        globals.note(tracer)
        _provide_builtins(tracer, what, code, globals)
    names = globals if locals is None else locals
    if not isinstance(names, DictValue):
        raise GraphBreak(FL0102, what=f"{what}() with locals of type {py.type_of(names).__name__}")
    names.note(tracer)
    return tracer.run_in_namespace(ClosureValue(code, globals), names)


def _refuse_writes(tracer: Tracer, what: str, code: types.CodeType) -> None:
    """What is written to the variables of a function in this way may or may not be seen later."""
    if tracer.programs.of(code).assigns_names:
        raise GraphBreak(FL0102, what=f"{what}() that assigns variables")


def _provide_builtins(tracer: Tracer, what: str, code: types.CodeType, globals: DictValue) -> None:
    """Globals get the builtins as an item, unless they have some."""
    own = globals.get_key(tracer, "__builtins__")
    if own is MISSING:
        globals.set_key(tracer, "__builtins__", tracer.builtins)
    elif own is tracer.builtins or (isinstance(own, Value) and own.concrete is builtins):
        own.note(tracer)
    elif not (isinstance(own, DictValue) and not py.truth(tracer, own)) or _asks_builtins(tracer, code, globals):
        raise GraphBreak(FL0102, what=f"{what}() with builtins of its own")


def _asks_builtins(tracer: Tracer, code: types.CodeType, globals: DictValue) -> bool:
    inner = [constant for constant in code.co_consts if type(constant) is types.CodeType]
    return any(name in builtins.__dict__ and globals.get_key(tracer, name) is MISSING for name in code.co_names) or any(
        _asks_builtins(tracer, part, globals) for part in inner
    )


# -- variables -------------------------------------------------------------------------------------------------------


@primitive(locals)
def _locals(tracer: Tracer) -> Any:
    assert tracer.frame is not None
    return variables(tracer, tracer.frame)


def variables(tracer: Tracer, frame: TracedFrame) -> Any:
    """`locals()` of a frame."""
    canonical = frame.program.canonical
    found: dict[str, Any] = {}
    for name, value in zip(canonical.slot_names, frame.locals, strict=True):
        contents = value.get(tracer) if isinstance(value, CellValue) else value
        if contents is not NULL and contents is not EMPTY and (not name.startswith(".") or name == ".0"):
            found[name] = contents
    if not canonical.code.co_flags & _OPTIMIZED:
        return _with_hidden(tracer, frame, found) if sys.version_info >= (3, 12) else frame.names
    if sys.version_info >= (3, 13):
        return DictValue(found)
    # Before 3.13 a frame has one such dict, which is brought up to date.
    if frame.names is None:
        frame.names = DictValue(found)
    else:
        known = frame.names.entries(tracer)
        for name in canonical.slot_names:
            if name in known and name not in found:
                frame.names.delete_key(tracer, name)
        for name, value in found.items():
            frame.names.set_key(tracer, name, value)
    return frame.names


def _with_hidden(tracer: Tracer, frame: TracedFrame, variables: dict[str, Any]) -> Any:
    """What a comprehension sees that is part of a class body or module: its own variables, too.

    In 3.13.0 it sees nothing else. What a class body shares with the functions around it is none of its variables.
    """
    code = frame.program.canonical.code
    shared = (*code.co_freevars, "__class__", "__classdict__")
    hidden = {name: value for name, value in variables.items() if name not in shared}
    if not hidden:
        return frame.names
    if not isinstance(frame.names, DictValue) or sys.version_info >= (3, 13) or hidden.keys() & {*code.co_cellvars}:
        raise GraphBreak(FL0102, what="locals() of a comprehension outside of functions")
    return DictValue({**frame.names.entries(tracer), **hidden})
