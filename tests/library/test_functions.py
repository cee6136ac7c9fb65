"""`itertools`, `functools`, `operator`, `heapq` and `bisect`: with odd arguments, in one graph."""

from __future__ import annotations

import bisect
import functools
import heapq
import itertools
import operator

from tests.library.outcomes import outcomes
from tests.values.programs import Programs, x

programs = Programs()


class Loud(list):
    """Says when it is asked: what C code reads below is not heard."""

    def __getitem__(self, index):
        print("item", index)
        return super().__getitem__(index)

    def __setitem__(self, index, item):
        print("set", index)
        super().__setitem__(index, item)

    def append(self, item):
        print("append")
        super().append(item)

    def pop(self, index=-1):
        print("pop")
        return super().pop(index)

    def __len__(self):
        print("length")
        return super().__len__()

    def __iter__(self):
        print("walk")
        return super().__iter__()


@programs(args=(x(), Loud([3, 1, 2])), fullgraph=True)
def heaps_in_instances_of_a_subclass(x, given):
    made = Loud([5, 4])
    heapq.heapify(given)
    heapq.heapify(made)
    heapq.heappush(given, 0)
    last = heapq.heappushpop(made, 7), heapq.heapreplace(made, 1)
    return x * heapq.heappop(given), last, heapq.nsmallest(2, given), made


@programs(args=(x(), Loud(["b", "a"])), fullgraph=True)
def a_heap_whose_items_cannot_be_compared(x, given):
    return x + 1, outcomes(lambda: heapq.heappush(given, 3), lambda: heapq.heapify(given)), list.copy(given)


@programs(fullgraph=True)
def what_is_no_heap(x):
    return x + 1, outcomes(
        lambda: heapq.heappush((), 1),
        lambda: heapq.heapify((1,)),
        lambda: heapq.heappop(3),
        lambda: heapq.heapreplace("a", 1),
        lambda: heapq.heappushpop(None, 1),
        lambda: heapq.heappop([]),
        lambda: heapq.heappush([1]),
    )


@programs(fullgraph=True)
def bounds_of_a_search(x):
    return x + bisect.bisect([1, 2], 2, True), outcomes(
        lambda: bisect.bisect([1], 2, "a"),
        lambda: bisect.bisect_left([1], 2, 0, "a"),
        lambda: bisect.bisect([1], 2, 0, 1.5),
        lambda: bisect.bisect([1], 2, -1),
        lambda: bisect.insort((1,), 2),
        lambda: bisect.bisect(3, 1),
    )


@programs(fullgraph=True)
def arguments_that_are_no_numbers(x):
    return x + 1, outcomes(
        lambda: itertools.product([1], repeat="a"),
        lambda: itertools.combinations([1], "a"),
        lambda: itertools.combinations_with_replacement([1], None),
        lambda: itertools.permutations([1], 1.0),
        lambda: list(itertools.permutations([1], True)),
        lambda: itertools.tee([1], "a"),
        lambda: list(itertools.starmap(pow, [1])),
        lambda: list(itertools.starmap(pow, [[2, 3]])),
        lambda: itertools.count("a"),
        lambda: list(itertools.islice([1], "a")),
    )


@programs(fullgraph=True)
def what_cannot_be_walked(x):
    try:
        functools.reduce(max, 3)
    except TypeError as error:
        context = error.__context__
    return (
        x + 1,
        context,
        outcomes(
            lambda: functools.reduce(max, 3, 1),
            lambda: functools.reduce(max, []),
            lambda: operator.countOf(3, 1),
            lambda: operator.indexOf(3, 1),
            lambda: operator.indexOf([1], 2),
        ),
    )


@programs(fullgraph=True)
def callables_made_of_no_names(x):
    return x + 1, outcomes(
        lambda: operator.methodcaller(3), lambda: operator.attrgetter(3), lambda: operator.methodcaller("upper")("a")
    )


test_programs = programs.test()
