"""Models of what a program tells the world: `print`, warnings, log records.

The functions marked `afterwards` are not inlined: the interpreter notes a call of them in its journal, and residual
code makes it after the graph has run, in the order of the program and with the arguments as they were at that point.
"""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Callable
from types import FrameType
from typing import Any, NamedTuple, TypeVar

from framelift import controls
from framelift.models.registry import models

F = TypeVar("F", bound=Callable[..., Any])

AFTERWARDS: list[Callable[..., Any]] = []


def afterwards(function: F) -> F:
    """Mark a function whose call is journaled instead of inlined. It must return None."""
    AFTERWARDS.append(function)
    return function


def shown(value: Any) -> str:
    """`str(value)`; the interpreter leaves it to residual code where that spares an assumption about the value."""
    return str(value)


# -- print -------------------------------------------------------------------------------------------------------------


@models(print)
def print_(*values: Any, sep: Any = " ", end: Any = "\n", file: Any = None, flush: Any = False) -> None:
    if file is None:
        file = sys.stdout
        if file is None:
            return
    sep, end = _separator("sep", sep, " "), _separator("end", end, "\n")
    for index, value in enumerate(values):
        if index:
            file.write(sep)
        file.write(shown(value))
    file.write(end)
    if flush:
        file.flush()


def _separator(name: str, value: Any, default: str) -> Any:
    if value is None:
        return default
    if not isinstance(value, str):
        raise TypeError(f"{name} must be None or a string, not {type(value).__name__}")
    return value


@afterwards
def write(stream: Any, text: str) -> None:
    """Write to a text stream."""
    stream.write(text)


@afterwards
def flush(stream: Any) -> None:
    """Flush a text stream."""
    stream.flush()


# -- where a message comes from ----------------------------------------------------------------------------------------


class Caller(NamedTuple):
    """A line of the program: in a frame that is traced, or `above` frames above the outermost of them."""

    filename: str
    line: int
    function: str
    namespace: Any
    above: int


def find_caller(level: int, internal: str) -> Caller:
    """The line `level` frames above the caller, not counting those of the file `internal`; the interpreter knows."""
    raise NotImplementedError  # never called: values/ has a primitive for it


def _frame_above(level: int) -> FrameType:
    """The frame `level` above residual code, which called a function that called this one."""
    frame: FrameType | None = sys._getframe(2)
    while level and frame is not None and frame.f_back is not None:
        frame = frame.f_back
        if not frame.f_code.co_filename.startswith(PACKAGE):
            level -= 1
    assert frame is not None
    return frame


# Where no frame is one of the program's.
PACKAGE = __file__.removesuffix("models/output.py")


def told(listeners: list[Any]) -> None:
    """Note who will hear what is journaled next; the interpreter keeps the program off what they know."""
    raise NotImplementedError  # never called: values/ has a primitive for it


# -- warnings ----------------------------------------------------------------------------------------------------------


@models(warnings.warn)
def warn(message: Any, category: Any = None, stacklevel: Any = 1, source: Any = None) -> None:
    if isinstance(message, Warning):
        text, category = str(message), type(message)
    else:
        text = message
        if category is None:
            category = UserWarning
    if not isinstance(text, str) or not isinstance(category, type) or not issubclass(category, Warning):
        controls.graph_break("a warning that is no text, or of a category that is none")
    if source is not None or stacklevel < 1:
        controls.graph_break("a warning with a source, or about no line")
    where = find_caller(stacklevel, "")
    if _action(text, category, where) == "error":
        raise message if isinstance(message, Warning) else category(message)
    if hears_otherwise():
        _tell(_action(text, category, where), message, category, where)
        return
    told([warnings.showwarning, warnings._showwarnmsg_impl])  # type: ignore[attr-defined]
    if where.above:
        warn_above(message, category, where.above)
    else:
        warn_at(message, category, where.filename, where.line, where.namespace)


def _action(text: str, category: type, where: Caller) -> str:
    """What the filters say about a warning."""
    for action, message, kind, module, line in warnings.filters:
        if not issubclass(category, kind):
            continue
        if where.above and (module is not None or line):
            controls.graph_break("a warning about a line that is not traced, with filters by line")
        if message is not None and not message.match(text):
            continue
        if module is not None and not module.match(where.namespace.get("__name__") or "<string>"):
            continue
        if line == 0 or line == where.line:
            return action
    return warnings.defaultaction  # type: ignore[attr-defined]


def hears_otherwise() -> bool:
    """Whether the program itself has put other filters in place, or another way to show warnings."""
    raise NotImplementedError  # never called: values/ has a primitive for it


def _tell(action: str, message: Any, category: type[Warning], where: Caller) -> None:
    """Warn now, as filters of the program have it: later they are gone."""
    if action == "ignore":
        return
    if action not in ("always", "all") or where.above or warnings._showwarnmsg_impl is _WRITES:  # type: ignore[attr-defined]
        controls.graph_break("a warning that filters of the program show, or show once")
    shown = message if isinstance(message, Warning) else category(message)
    if warnings.showwarning is not warnings._showwarning_orig:  # type: ignore[attr-defined]
        warnings.showwarning(shown, category, where.filename, where.line, None, None)
    else:
        told = warnings.WarningMessage(shown, category, where.filename, where.line, None, None, None)
        warnings._showwarnmsg_impl(told)  # type: ignore[attr-defined]


# Shows a warning unless somebody records them.
_WRITES = warnings._showwarnmsg_impl  # type: ignore[attr-defined]


@afterwards
def forget_shown_warnings() -> None:
    """What changes filters does: warnings that were shown once may be shown once more."""
    warnings._filters_mutated()  # type: ignore[attr-defined]


@afterwards
def warn_at(message: Any, category: type[Warning], filename: str, line: int, namespace: dict[str, Any]) -> None:
    """Warn about a line that was traced."""
    module = namespace.get("__name__") or "<string>"
    registry = namespace.setdefault("__warningregistry__", {})
    warnings.warn_explicit(message, category, filename, line, module, registry)


@afterwards
def warn_above(message: Any, category: type[Warning], above: int) -> None:
    """Warn about the line from which the traced program was called."""
    frame = _frame_above(above)
    registry = frame.f_globals.setdefault("__warningregistry__", {})
    module = frame.f_globals.get("__name__") or "<string>"
    warnings.warn_explicit(message, category, frame.f_code.co_filename, frame.f_lineno, module, registry)


# -- log records -------------------------------------------------------------------------------------------------------


@models(logging.Manager.getLogger)
def get_logger(manager: logging.Manager, name: str) -> logging.Logger:
    """Making a logger takes a lock; one that exists is found without."""
    found = manager.loggerDict.get(name) if isinstance(name, str) else None
    if not isinstance(found, logging.Logger):
        controls.graph_break("a logger is made")
    return found  # type: ignore[return-value]


@models(logging.Logger.isEnabledFor)
def is_enabled_for(logger: logging.Logger, level: int) -> bool:
    # The original remembers the answer in a cache that whoever changes a level clears.
    if logger.disabled:
        return False
    return logger.manager.disable < level and level >= logger.getEffectiveLevel()


@models(logging.Logger._log)
def log(
    logger: logging.Logger,
    level: int,
    msg: Any,
    args: Any,
    exc_info: Any = None,
    extra: Any = None,
    stack_info: Any = False,
    stacklevel: int = 1,
) -> None:
    if exc_info or stack_info or type(logger).findCaller is not logging.Logger.findCaller:
        controls.graph_break("a log record with a traceback, or about a line its logger finds")
    told(_listeners(logger))
    where = find_caller(stacklevel, logging._srcfile or "")
    if where.above:
        log_above(logger, level, msg, args, extra, where.above)
    else:
        log_at(logger, level, where.filename, where.line, msg, args, where.function, extra)


def _listeners(logger: logging.Logger) -> list[Any]:
    """Filters of a logger, and the handlers on the way up."""
    found: list[Any] = list(logger.filters)
    above: logging.Logger | None = logger
    while above is not None:
        found += above.handlers
        above = above.parent if above.propagate else None
    return found


@afterwards
def log_at(
    logger: logging.Logger, level: int, filename: str, line: int, msg: Any, args: Any, function: str, extra: Any
) -> None:
    """Make and handle the record of a line that was traced."""
    logger.handle(logger.makeRecord(logger.name, level, filename, line, msg, args, None, function, extra, None))


@afterwards
def log_above(logger: logging.Logger, level: int, msg: Any, args: Any, extra: Any, above: int) -> None:
    """Make and handle a record about the line from which the traced program was called."""
    frame = _frame_above(above)
    code = frame.f_code
    record = logger.makeRecord(
        logger.name, level, code.co_filename, frame.f_lineno, msg, args, None, code.co_name, extra, None
    )
    logger.handle(record)
