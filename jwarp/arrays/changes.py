"""A mark that another one replaces whenever an array gets another gradient, or a launch other values."""

from __future__ import annotations


class Changes:
    """The mark of a process.

    Whoever has checked that nothing has changed reads `latest` before. As long as it is the same object, the check
    need not be done again. Objects are compared, not numbers, as two threads that count at once may count one.
    """

    __slots__ = ("latest",)

    def __init__(self) -> None:
        self.latest = object()

    def note(self) -> None:
        """Say that something has changed, after it has."""
        self.latest = object()


CHANGES = Changes()
