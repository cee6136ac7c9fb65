"""CPython's own tests, run lifted: `make cpython-tests`.

`suite` says which modules and which differences are allowed, `ways` how a test method is run (plainly, lifted, with
torch.compile), `child` runs one module in a process of its own, `__main__` compares and prints.
"""
