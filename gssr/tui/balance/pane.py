"""Balance: what does imbalance cost? The sentence, all GPUs sorted, the imbalance over time, nodes and places."""

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical

from gssr.model.live.live_result import Result
from gssr.tui.balance.gpu_bars import GpuBars
from gssr.tui.balance.nodes_and_places import NodesAndPlaces
from gssr.tui.balance.over_time import ImbalanceOverTime
from gssr.tui.balance.sentence import BalanceSentence
from gssr.tui.shared.pane import ScreenPane
from gssr.tui.view import View


class BalancePane(ScreenPane):
    """Show what imbalance costs, and whom it is due to."""

    screen_name = "balance"
    panels = (BalanceSentence, GpuBars, ImbalanceOverTime, NodesAndPlaces)

    def compose(self) -> ComposeResult:
        """Lay out the answer above, who on the left, when and where on the right."""
        yield BalanceSentence(id="balance-sentence", classes="panel")
        with Horizontal(id="balance-body"):
            yield GpuBars(id="gpu-bars", classes="panel leads-to-gpu")
            with Vertical(id="balance-right"):
                yield ImbalanceOverTime(id="imbalance-over-time", classes="panel")
                yield NodesAndPlaces(id="nodes-and-places", classes="panel")

    def show(self, results: Sequence[Result], view: View) -> None:
        """Draw the first result; where it is of the nodes, the one of their GPUs."""
        super().show([results[0].of_gpus or results[0]], view)
