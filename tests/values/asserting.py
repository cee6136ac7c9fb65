"""Programs with `assert`: in a file of their own, since pytest rewrites the assertions of its test files."""


def fails_and_is_caught(x):
    try:
        assert x.dim() == 7, f"dim is {x.dim()}"
    except AssertionError as error:
        return x + 1, str(error)


def holds(x):
    assert x.dim() == 2
    return x + 1


def fails(x):
    y = x + 1
    assert y.dim() == 3, "no"
