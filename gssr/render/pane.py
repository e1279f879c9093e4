"""How high the pane is in which the live screen shows what the workload prints. The workload's terminal has its size."""

LEAST_SCREEN, LEAST = 14, 4


def pane_height(height: int) -> int:
    """Rows of the pane on a terminal of ``height`` rows, its title among them: a third; 0 where there is no room for it."""
    return 0 if height < LEAST_SCREEN else max(height // 3, LEAST)
