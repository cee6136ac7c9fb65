"""`threading`: locks and thread locals."""
