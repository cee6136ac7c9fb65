"""`bisect`: against the original, and in programs."""

from __future__ import annotations

import bisect
import random

import pytest

from framelift.models.stdlib import bisect as model_of_bisect
from tests.values.programs import Programs

programs = Programs()


@pytest.mark.parametrize("seed", range(20))
def test_the_models_do_what_the_originals_do(seed):
    choose = random.Random(seed)
    items = [choose.randrange(10) for _ in range(choose.randrange(12))]
    mine = sorted(items)
    for name in ("bisect_left", "bisect_right"):
        model, original = getattr(model_of_bisect, name), getattr(bisect, name)
        for wanted in range(-1, 11):
            for bounds in ((), (0, len(mine) // 2), (0, -1), (0, None)):
                assert model(mine, wanted, *bounds) == original(mine, wanted, *bounds)


@programs()
def bisection(x):
    items = [1, 3, 5]
    bisect.insort(items, 4)
    bisect.insort_left(items, 3, key=lambda v: v)
    return (
        x + bisect.bisect_left(items, 3),
        items,
        bisect.bisect([1, 2], 5, 0, 2),
        bisect.bisect_left(items, 4, key=int),
    )


test_programs = programs.test()
