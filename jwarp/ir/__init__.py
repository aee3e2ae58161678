"""The typed, structured intermediate representation of a kernel."""
