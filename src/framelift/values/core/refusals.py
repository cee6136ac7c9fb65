"""What values refuse again and again, each in one wording: `self.refuse(Operation.ATTRIBUTE, name=name)`."""

from __future__ import annotations

from enum import StrEnum


class Operation(StrEnum):
    """Operations that a value may not model; what varies stands in braces."""

    ARGUMENTS = "{name}() with these arguments"
    ATTRIBUTE = "attribute {name!r}"
    CALL = "calling"
    COMPARISON = "comparison {operator}"
    CONSTANT_MEMBERS = "use with members that are not plain constants"
    DELETE = "deletion of {name}"
    DELETE_ATTRIBUTE = "deletion of attribute {name!r}"
    GET = "__get__()"
    GRAPH_ARGUMENT = "passing to a tensor operation"
    IDENTITY = "'is'"
    INIT_AGAIN = "__init__ of an object that existed before"
    KEY = "use as a key"
    LEFT_BEFORE_ENTERED = "leaving a block that was not entered"
    MAY_HAVE_DIED = "use after its object may have died"
    OPERATOR = "operator {operator}"
    REDUCE = "__reduce__()"
    SET = "assignment of {name}"
    SET_ATTRIBUTE = "assignment of attribute {name!r}"
    SET_CLASS_ATTRIBUTE = "assignment of the class attribute {name!r}"
    SETSTATE = "__setstate__()"
