"""`weakref`, in one graph."""

from __future__ import annotations

import weakref

from tests.values.programs import Programs, x

programs = Programs()


class Ob:
    def __init__(s, v=2):
        s.v = v

    def m(s):
        return s.v

    def __repr__(s):
        return f"Ob({s.v})"


class Own(Ob):
    def __init__(s):
        super().__init__()
        s.child = weakref.ref(s)


class Node:
    def __init__(s, parent=None):
        s.parent = None if parent is None else weakref.ref(parent)
        s.kids = []

    def add(s):
        n = Node(s)
        s.kids.append(n)
        return n


@programs(args=(x(), Own()), fullgraph=True)
def a_reference_to_itself(x, o):
    return (x * o.child().v, Own().child is not None)


@programs(fullgraph=True)
def a_tree(x):
    r = Node()
    k = r.add()
    return (x + len(r.kids), k.parent() is r, r.kids[0].parent().kids[0] is k)


test_programs = programs.test()
