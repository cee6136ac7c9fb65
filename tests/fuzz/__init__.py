"""Random programs, lifted and compared with Python: `make fuzz`.

`generate` writes a program from a seed and a size, `run` compares one program and makes a failing one smaller,
`faults` plants faults in framelift that the programs must find, `__main__` is the command.
"""
