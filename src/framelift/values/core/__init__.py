"""What every value is built on: the protocol of operations, lookup, constants, exceptions of the program."""
