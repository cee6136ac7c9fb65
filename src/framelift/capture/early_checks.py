"""Operations that may raise because of their indices, after an input was written to: the indices are checked before.

Else copies of all that was written would be kept to take it back, or the graph would end there.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

import torch

from framelift.capture.interpreter.tracing import Tracing
from framelift.graph import TensorRef
from framelift.graph.emission.runtime_asserts import PROGRAM_RAISES
from framelift.values.torch.data_errors import indices_of


def checked_first(lift: Tracing, target: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """Have the graph check, before it writes to inputs, all that the data may be wrong in; False: it cannot."""
    graph, found = lift.graph, indices_of(target, args, kwargs)
    if found is None or not graph.can_come_first(found.indices):
        return False
    location = lift.program_point()

    def call(function: Any, *operands: Any) -> Any:
        return graph.call_function(function, operands, {}, location)

    lower, upper = call(operator.ge, found.indices, found.least), call(operator.lt, found.indices, found.size)
    right = call(operator.and_, lower, upper)
    if found.allowed is not None:
        right = call(operator.or_, right, call(operator.eq, found.indices, found.allowed))
    flag = call(torch.all, right)
    assert isinstance(flag, TensorRef)
    call(torch._assert_async, flag, PROGRAM_RAISES)
    check = graph.records[-1]
    check.is_early = check.must_run = True
    return True
