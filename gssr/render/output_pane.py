"""The height of the pane in which the live screen shows the workload's output; the workload's terminal has its size."""

MIN_SCREEN_ROWS = 14  # on a lower screen there is no pane
MIN_PANE_ROWS = 4
MIN_TALL_SCREEN_ROWS = 48  # from here on a third of the rows is none that another screen lacks


def pane_height(height: int) -> int:
    """Rows of the pane on a terminal of ``height`` rows, its title among them: a third; 0 where there is no room for it."""
    return 0 if height < MIN_SCREEN_ROWS else max(height // 3, MIN_PANE_ROWS)


def low_pane_height(height: int) -> int:
    """Rows of the pane below a screen that is a list or a chart: the least on a terminal of less than MIN_TALL_SCREEN_ROWS
    rows, where it shows the last lines of the output only."""
    return pane_height(height) if height >= MIN_TALL_SCREEN_ROWS else min(pane_height(height), MIN_PANE_ROWS)
