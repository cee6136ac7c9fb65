"""What a program hears when it asks whether it is compiled: yes, unless that leads it astray.

Programs leave out work where they believe in a compiler of one kind, and then raise, or call what only that compiler
takes. Such a program is captured again, and the question it asked last is answered with no. What it does on its own
is always right. A function that asked and is left by an exception, handled or not, may have left out a handler.
torch's optimizers and its transformer are told no at once.

    >>> answers = Answers()
    >>> answers.begin(), answers.to("here"), answers.to("there")
    (None, True, True)
    >>> answers.reconsider(), answers.begin(), answers.to("here"), answers.to("there")
    (None, None, True, False)
"""

from __future__ import annotations

from types import CodeType

import torch.nn.modules.transformer
import torch.optim

# Where a question is asked: lines of code, outermost first.
Question = tuple[tuple[CodeType, int], ...]

# So many questions are reconsidered one by one, then all of them.
_PATIENCE = 4


# What optimizers compute for a compiler differs in its bits from what they compute for themselves; encoders leave other
# things in places that are padded.
_MISLED = (torch.optim.__path__[0], torch.nn.modules.transformer.__file__)


def is_misled(code: CodeType) -> bool:
    """Whether a function would not do what it does on its own if it heard that it is compiled."""
    return code.co_filename.startswith(_MISLED)


class NotCompiling(Exception):
    """The program relies on a compiler that does more than we do: capture again with other answers."""


class Answers:
    """The answers over all attempts to capture one call. A question is known by where it is asked."""

    def __init__(self) -> None:
        self._denied: set[Question] = set()
        self._confirmed: list[Question] = []
        self.reconsidered = 0
        # What first led the program astray, in words.
        self.why = ""

    def begin(self) -> None:
        """A new attempt."""
        self._confirmed = []

    def doubt(self, why: str = "") -> None:
        """The program goes astray: capture again, if an answer may be why."""
        self.why = self.why or why
        if self._confirmed:
            raise NotCompiling

    def doubt_of(self, code: CodeType) -> None:
        """An exception leaves a function: capture again, if it asked."""
        for question in self._confirmed:
            if any(place[0] is code for place in question):
                self._confirmed.append(question)
                raise NotCompiling

    def to(self, question: Question) -> bool:
        """What the program hears."""
        if self.reconsidered > _PATIENCE or question in self._denied:
            return False
        self._confirmed.append(question)
        return True

    def reconsider(self) -> None:
        """Answer the last question otherwise from now on."""
        self.reconsidered += 1
        self._denied.add(self._confirmed[-1])
