"""`decimal`: numbers, contexts, and the context of the thread."""
