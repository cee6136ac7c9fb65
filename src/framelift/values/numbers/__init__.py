"""Numbers, strings and flags that came from an input, and those that change from call to call."""
