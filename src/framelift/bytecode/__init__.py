"""CPython's bytecode, from code objects to instructions and back.

    code ──decode──► [Instruction] ──passes──► [Instruction] ──assemble──► code
      └───lower───► CanonicalCode: the same program in one instruction set for all versions, for the interpreter
    Builder ──to_code──► code: writing new programs

Nothing here knows about tensors, guards or graphs.
"""
