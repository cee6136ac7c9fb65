"""A graph that raises is undone by running Python; this is what has to be undone first.

Nothing is replayed before the graph has returned. What a graph itself leaves behind when it raises half-way is: random
numbers drawn, modes of torch switched, memory of inputs written to. The first two are put back; memory where an
operation that may raise, because of the data it sees, follows a write. (Copies cost time and memory on every call, so
capture cuts graphs before such an operation where much was written.) Metadata lets operations pass that raise on real
tensors, whatever their data: such a graph raises in its first run, so all memory is copied for that. Where no operation
was expected to raise, and the graph has run before and has written to memory, the exception goes on as it is: it must
be something unforeseen, like memory that ran out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from framelift.effects.modes import ModeState, autocast_nesting, state_now, switches
from framelift.graph.analysis.writes import MOST
from framelift.graph.emission.runtime_asserts import failed_check
from framelift.residual.memory import Memory

# Bytes copied before the first run of a graph.
MOST_AT_FIRST = 64 << 20


@dataclass(slots=True, eq=False)
class Precautions:
    """What a graph does that must be taken back before the original runs.

    `modes`, of a graph that switches them, are those it is called with: guards hold them, but for how deep blocks with
    autocast are nested. `raises_uncounted`: it may raise, and no count tells whether it has written by then.
    """

    draws_random: bool = False
    modes: ModeState | None = None
    writes: bool = False
    keeps_copies: bool = False
    raises_uncounted: bool = False
    # Until a run has not been undone.
    _untried: bool = True

    def __bool__(self) -> bool:
        return self.draws_random or self.modes is not None or self.writes

    def save(self, *written: torch.Tensor) -> tuple[Any, ...]:
        """What to come back to; `written` are the inputs the graph writes to."""
        return (
            _random_states() if self.draws_random else None,
            autocast_nesting() if self.modes is not None else 0,
            tuple(map(_version, written)),
            [(tensor.clone(), _history(tensor)) for tensor in written] if self.keeps_copies else None,
            self._memory(written) if self._untried or self.raises_uncounted else None,
        )

    def _memory(self, written: tuple[torch.Tensor, ...]) -> Memory | None:
        most = MOST_AT_FIRST if self._untried else MOST
        self._untried = False
        return Memory.of(written, most) if self.writes and not self.keeps_copies else None

    def undo(self, saved: tuple[Any, ...], *written: torch.Tensor) -> bool:
        """Put back what can be; True if everything is as before and the original may run."""
        random, _, versions, copies, memory = saved
        self._untried = True
        self.restore_modes(saved)
        if copies is not None:
            if any(_history(tensor) is not history for tensor, (_, history) in zip(written, copies, strict=True)):
                return False  # it went on beyond the operation that might have raised, and gave one another history
            # All of them: batch norm writes its statistics without counting it as a change.
            with torch.no_grad():
                for tensor, (copy, _) in zip(written, copies, strict=True):
                    tensor.copy_(copy)
        elif not (
            all(map(_is_unwritten, written, versions))
            # (What a check prevents comes after it. Compiled graphs count a change of their inputs before they begin.)
            or failed_check() is not None
            or (memory is not None and memory.put_back())
        ):
            return False
        if random is not None:
            _restore_random_states(random)
        return True

    def restore_modes(self, saved: tuple[Any, ...]) -> None:
        if self.modes is not None:
            _restore(self.modes._replace(autocast_nesting=saved[1]))


def _version(tensor: torch.Tensor) -> int | None:
    return None if tensor.is_inference() else tensor._version  # an inference tensor does not count its changes


def _history(tensor: torch.Tensor) -> Any:
    """Where a tensor comes from. Not by its `grad_fn` alone: asked for it, a view looks for the history of its base."""
    return (tensor.grad_fn or _LEAF) if tensor.requires_grad else None


_LEAF = object()


def _is_unwritten(tensor: torch.Tensor, before: int | None) -> bool:
    return before is not None and _version(tensor) == before


def _random_states() -> tuple[torch.Tensor, list[torch.Tensor] | None]:
    return torch.get_rng_state(), torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else None


def _restore_random_states(states: tuple[torch.Tensor, list[torch.Tensor] | None]) -> None:
    torch.set_rng_state(states[0])
    if states[1] is not None:
        torch.cuda.set_rng_state_all(states[1])


def _restore(modes: ModeState) -> None:
    now = state_now()
    for function, args in switches(now, modes):
        function(*args)
    if modes.autocast_nesting == 0 < now.autocast_nesting:
        torch.clear_autocast_cache()
