"""Numbers of the inputs at the end of a capture: what was assumed about symbols, and what is to be remembered."""

from __future__ import annotations

from framelift.capture.lift import Lift
from framelift.errors import DynamicError
from framelift.guards.quantity import Quantity
from framelift.guards.source import Source


def note_symbols(lift: Lift) -> None:
    """Guard everything that was assumed about symbolic sizes and numbers, by the program and by the backend."""
    members: list[Source] = []

    def load_of(origin: object) -> tuple[int, int, int]:
        assert isinstance(origin, Quantity)
        if origin.source not in members:
            members.append(origin.source)
        return origin.load(members)

    _refuse_specialised(lift)
    program = lift.graph.symbols.program(load_of)
    if program is not None:
        lift.guards.relate_numbers(members, program)


def _refuse_specialised(lift: Lift) -> None:
    """Sizes that were marked dynamic must not have become numbers."""
    for name, value, place in lift.graph.symbols.specialised():
        if name in lift.policy.never_specialised:
            where = "the backend" if place is None else place
            raise DynamicError(f"{name} was marked dynamic, but {where} needs it to be {value}")


def refuse_constants(lift: Lift) -> None:
    """Sizes that were marked dynamic must not be such as never become symbols."""
    for name in sorted(lift.policy.never_specialised - lift.graph.symbols.names):
        raise DynamicError(f"{name} was marked dynamic, but sizes 0 and 1, and those out of bounds, are constants")


def remember(lift: Lift) -> None:
    """Remember the numbers this entry is for: one that differs in another call is symbolic from then on."""
    lift.policy.saw_decided(lift.graph.symbols.assumed_of_items())
    for guard in lift.guards.guards:
        if guard.check == "EQUALS" and type(guard.argument) in (int, float):
            lift.policy.saw_number(guard.source.name, guard.argument)
        elif guard.check == "LENGTH":
            lift.policy.saw_number(Quantity(guard.source, "LENGTH").name, guard.argument)
