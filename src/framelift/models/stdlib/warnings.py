"""Models of `warnings`."""

from __future__ import annotations

import warnings
from typing import Any

from framelift import controls
from framelift.models.registry import models
from framelift.models.side_effects import Caller, afterwards, find_caller, frame_above, told


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
    frame = frame_above(above)
    registry = frame.f_globals.setdefault("__warningregistry__", {})
    module = frame.f_globals.get("__name__") or "<string>"
    warnings.warn_explicit(message, category, frame.f_code.co_filename, frame.f_lineno, module, registry)
