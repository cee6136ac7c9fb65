"""Models of `logging`."""

from __future__ import annotations

import logging
from typing import Any

from framelift import controls
from framelift.models.registry import models
from framelift.models.side_effects import afterwards, find_caller, frame_above, told


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
    frame = frame_above(above)
    code = frame.f_code
    record = logger.makeRecord(
        logger.name, level, code.co_filename, frame.f_lineno, msg, args, None, code.co_name, extra, None
    )
    logger.handle(record)
