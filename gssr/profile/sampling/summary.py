"""The machine-readable line that ends a run, computed from the sampler's own rollups."""

from collections.abc import Collection, Sequence

from gssr.metrics import SCORE_INPUTS
from gssr.score import result_line, score_of_means
from gssr.store.format.layout import LAYOUT


def whole_run(vectors: Collection[Sequence[float]]) -> str:
    """Return the line ``GSSR score=0.609 imbalance=0.207 gpus=16 gaps=0``, which also ends the page of ``gssr
    analyze``.

    ``vectors``: of each GPU its rollup over the whole run. What can't be known, such as a score without samples, is
    ``unknown``.
    """
    start = {block.metric.name: block.start for block in LAYOUT.blocks}
    means: dict[str, float | None] = {}
    for name in SCORE_INPUTS:
        n = sum(vector[start[name]] for vector in vectors)
        means[name] = sum(vector[start[name] + 1] for vector in vectors) / n if n else None
    own = [
        vector[start["sm_active"] + 1] / vector[start["sm_active"]] for vector in vectors if vector[start["sm_active"]]
    ]
    imbalance = 1 - (sum(own) / len(own)) / max(own) if own and max(own) > 0 else None
    gaps = int(sum(vector[1] for vector in vectors))
    return result_line(score_of_means(means), imbalance, len(vectors), gaps)
