"""FX graphs made of records: nodes, symbols as nodes, inputs that nobody needs, checks, the code of exported graphs."""
