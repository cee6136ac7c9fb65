"""torch's own databases of operations and modules, run lifted: `make torch-tests`.

`databases` makes cases of torch's databases, `ways` says how a function is run (lifted, with torch.compile), `verdict`
runs a case and compares, `child` runs a batch of cases in a process of its own, `__main__` counts and prints.
"""
