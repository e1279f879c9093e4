"""The height of the pane in which the live screen shows the workload's output; the workload's terminal has its size."""

MIN_SCREEN_ROWS = 14  # on a lower screen there is no pane
MIN_PANE_ROWS = 4


def pane_height(height: int) -> int:
    """Rows of the pane on a terminal of ``height`` rows, its title among them: a third; 0 where there is no room for it."""
    return 0 if height < MIN_SCREEN_ROWS else max(height // 3, MIN_PANE_ROWS)
