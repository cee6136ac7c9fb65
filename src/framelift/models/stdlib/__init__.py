"""Models of the standard library: a module for each of its modules, under the same name."""

from framelift.models.stdlib import (  # noqa: F401  (register their models)
    bisect,
    collections,
    copyreg,
    functools,
    heapq,
    itertools,
    json,
    logging,
    math,
    operator,
    pickle,
    sys,
    typing,
    warnings,
)
