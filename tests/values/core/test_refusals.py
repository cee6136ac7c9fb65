"""What values refuse is told in one wording each."""

from __future__ import annotations

import pathlib
import re

import pytest

import framelift
from framelift.breaks import FL0102, FL0102_ARGUMENTS, GraphBreak
from framelift.values.containers.sequences import ListValue
from framelift.values.core.refusals import Operation

SOURCES = [path.read_text() for path in pathlib.Path(framelift.__file__).parent.rglob("*.py")]
CALLS = "\n".join(call for text in SOURCES for call in re.findall(r"\.refuse\([^\n]*", text))


@pytest.mark.parametrize("operation", Operation, ids=lambda operation: operation.name)
def test_every_operation_is_refused_somewhere_and_by_its_name(operation: Operation) -> None:
    assert re.search(rf"\.refuse\(Operation\.{operation.name}\b", CALLS)
    written = re.escape(operation.value).replace(r"\{name!r\}", r"\{\w+!r\}").replace(r"\{name\}", r"\{\w+\}")
    assert not re.search(rf"\.refuse\(f?\"{written}\"\)", CALLS)


def test_facts_are_put_into_the_words() -> None:
    with pytest.raises(GraphBreak) as info:
        ListValue([]).refuse(Operation.ATTRIBUTE, name="{x}")
    assert info.value.words == "attribute '{x}' of list is not modelled"
    with pytest.raises(GraphBreak) as info:
        ListValue([]).refuse("use of {braces}")
    assert info.value.words == "use of {braces} of list is not modelled"


def test_another_wording_is_the_same_reason() -> None:
    assert (FL0102_ARGUMENTS.id, FL0102_ARGUMENTS.remedy) == (FL0102.id, FL0102.remedy)
    assert GraphBreak(FL0102_ARGUMENTS, what="f()").words == GraphBreak(FL0102, what="f() with these arguments").words
