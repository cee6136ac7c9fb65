"""Numbers that Python calculates from numbers of the inputs: `0.9 ** step`, `math.cos(step)`, `round(scale, 2)`.

torch's symbols do not know such functions, or not as Python does. So residual code calls the function before the graph
runs, and the result is an input of the graph, with a symbol of its own. Where something is assumed about that symbol,
the numbers it was calculated from are guarded instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from framelift.guards.quantity import Calculated, Quantity
from framelift.values.numbers.scalars import is_number
from framelift.values.numbers.symbolic import Computed, SizeOf, SymbolicValue
from framelift.values.stdlib.decimal.numbers import DecimalValue, run

if TYPE_CHECKING:
    from framelift.values.core.tracer import Tracer

# Of a quotient of sizes, torch's symbols know these: the result may be a size.
_ROUNDINGS = (math.ceil, math.floor, math.trunc)


def calculate(tracer: Tracer, function: Callable[..., Any], *args: Any) -> Any:
    """What a function that depends on its arguments alone gives; None where these must be specialised.

    Of decimals it is known now, in the context of the program.
    """
    for arg in args:
        if isinstance(arg, DecimalValue):
            return run(tracer, function, list(args))
    if not tracer.has_residual or not any(isinstance(arg, SymbolicValue) for arg in args):
        return None
    if function in _ROUNDINGS and len(args) == 1 and not args[0].rests_on_floats:
        result = tracer.call_on_numbers(function, args)
        return None if result is NotImplemented else result
    if not all(_is_given(arg) if isinstance(arg, SymbolicValue) else is_number(arg) for arg in args):
        return None
    plain = tuple(arg if isinstance(arg, SymbolicValue) else tracer.constant(arg) for arg in args)
    try:
        result = function(*[arg.hint if isinstance(arg, SymbolicValue) else arg for arg in plain])
    except (ArithmeticError, ValueError, TypeError):  # the program raises it, of the numbers as they are
        return None
    return tracer.inputs.calculated_number(tracer, Calculated(function, plain, type(result)), result)


def _is_given(number: SymbolicValue) -> bool:
    """Whether a number is known before the graph runs."""
    origin = number.origin
    if isinstance(origin, Computed):
        return all(_is_given(part) for part in (origin.left, origin.right) if isinstance(part, SymbolicValue))
    if isinstance(origin, SizeOf):
        return origin.tensor.is_as_it_came
    return isinstance(origin, Quantity | Calculated) and not number.depends_on_data
