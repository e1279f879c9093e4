"""What is said in place of a judgement."""

from gssr.model.live.judge import LEAST_SECONDS
from gssr.model.live.live_result import Result


def not_judged(result: Result) -> str:
    """Say why there is no verdict, or not yet. Only for a result without a judgement, or with one that says why
    nothing is judged."""
    if result.judgement is not None and result.judgement.not_judged:
        return f"Not judged: {result.judgement.not_judged}."
    if result.by_node and result.of_gpus is None:
        return "No GPU was recorded: there is nothing to judge."
    lasted = result.last - result.first
    if result.is_live and lasted < LEAST_SECONDS:
        return f"Where the GPU time goes is shown after {LEAST_SECONDS:.0f} s: {LEAST_SECONDS - lasted:.0f} s to go."
    return "The rules look at this window ..."
