"""Some of the cases of torch's databases: whole and equal, but for those that are listed, which are equal at least."""

from __future__ import annotations

import pytest

from tests.torch_databases.known import not_whole

PARTS = 10


@pytest.mark.parametrize("part", range(PARTS))
def test_some_cases_of_torchs_databases(part: int) -> None:
    from tests.torch_databases.databases import some_cases
    from tests.torch_databases.steps import judge_case
    from tests.torch_databases.ways import lifted

    known, problems = not_whole(), []
    with lifted() as way:
        for case in some_cases(300)[part::PARTS]:
            verdict = judge_case(case, way, at_most=2)
            problems += [f"{case.id}: {problem}" for problem in verdict.wrong]
            if case.id not in known:
                problems += [f"{case.id} is not whole: {reason}" for reason in verdict.broke]
    assert problems == []
