"""`heapq`: against the original, and in programs."""

from __future__ import annotations

import heapq
import random

import pytest

from framelift.models.stdlib import heapq as model_of_heapq
from tests.values.programs import Programs

programs = Programs()


@pytest.mark.parametrize("seed", range(20))
def test_the_models_do_what_the_originals_do(seed):
    choose = random.Random(seed)
    items = [choose.randrange(10) for _ in range(choose.randrange(12))]
    for model, original in ((model_of_heapq.heapify, heapq.heapify), (model_of_heapq.heapify_max, heapq._heapify_max)):
        mine, theirs = list(items), list(items)
        model(mine)
        original(theirs)
        assert mine == theirs
    mine, theirs = sorted(items), sorted(items)
    for _ in range(20):
        name, item = choose.choice(("heappush", "heappop", "heapreplace", "heappushpop")), choose.randrange(10)
        args = () if name == "heappop" else (item,)
        outcomes = []
        for module, heap in ((model_of_heapq, mine), (heapq, theirs)):
            try:
                outcomes.append(getattr(module, name)(heap, *args))
            except IndexError as error:
                outcomes.append(str(error))
        assert outcomes[0] == outcomes[1] and mine == theirs


@programs()
def heaps(x):
    h = [3, 1, 2]
    heapq.heapify(h)
    heapq.heappush(h, 0)
    smallest = heapq.heappop(h)
    tied = [(1, "b"), (1, "a"), (0, "z")]
    heapq.heapify(tied)
    return x + smallest, heapq.nlargest(2, h), heapq.nsmallest(2, [3, 1, 2]), heapq.heappushpop(h, 9), h, tied


@programs()
def merged(x):
    return x + 1, list(heapq.merge([1, 3], [2], [])), list(heapq.merge([3, 1], [2], reverse=True))


@programs()
def empty_heap(x):
    try:
        heapq.heappop([])
    except IndexError as error:
        return x + 1, str(error)


test_programs = programs.test()
