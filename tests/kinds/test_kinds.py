"""Every program does what it does in eager, and is whole where it was recorded to be."""

import pytest

from tests.kinds import recorded
from tests.kinds.program import all_programs
from tests.kinds.verdict import judge
from tests.torch_databases.ways import lifted

PROGRAMS = all_programs()
RECORDED = recorded.read()


@pytest.mark.parametrize("id", PROGRAMS)
def test_program(id):
    with lifted() as way:
        verdict = judge(PROGRAMS[id], way)
    assert verdict.word != "wrong", verdict.reason
    assert verdict.word == RECORDED[id].lifted, f"{verdict}; if that is better: python -m tests.kinds --write"


def test_record_is_of_these_programs():
    assert set(RECORDED) == set(PROGRAMS)
    assert all({line.lifted, line.torch} <= {"whole", "broke", "wrong"} for line in RECORDED.values())
    assert not any(line.lifted == "wrong" for line in RECORDED.values())
