"""A clock that stands until it is told."""


class Clock:
    """Stands in for ``time`` in the modules that look at the clock."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def monotonic(self) -> float:
        return self.seconds
