"""Programs with tensors of every kind: subclasses, modes, transforms, higher-order operators. `python -m tests.kinds`.

`areas/` has the programs, one module for each area; `program` is what they are collected by, `verdict` runs one of them
(lifted, or with torch.compile) and compares it with eager, `recorded` keeps what became of each in `recorded/`, and
`__main__` counts and prints. A program is whole if it is one graph, used by the next call, and all is as in eager.
"""
