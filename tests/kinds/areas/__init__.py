"""The areas: a module each, with an object `program` that its programs are added to."""
