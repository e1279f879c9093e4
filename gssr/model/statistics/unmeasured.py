"""GPU time of a run of which nothing is known, because the rank that recorded it was lost."""

import numpy as np

from gssr.arrays import Floats, Ints
from gssr.store.format.schema import GAP_INTERVALS
from gssr.store.read.recording import RunReader


def unmeasured_seconds(reader: RunReader, gpus: Ints, last_time: Floats, start: float, end: float) -> Floats:
    """Return for each of these GPUs (positions [n]) the seconds from ``start`` to ``end`` (unix s) that come after its last
    sample, if a rank that sampled or used it was lost.

    ``last_time`` [n] is in unix s; NaN is a GPU without samples, and its whole time counts. 0 of GPUs of other ranks,
    and of those that are silent for no longer than a gap may be (GAP_INTERVALS), as others went on sampling them.
    """
    seconds = np.zeros(len(gpus))
    lost = {rank.rank for rank in reader.stopped_ranks if rank.how == "lost"}
    if not lost:
        return seconds
    used = {gpu for rank in lost for gpu in reader.gpus_of_ranks.get(rank, ())}
    own = np.array([reader.gpus[gpu].rank in lost or gpu in used for gpu in gpus.tolist()], bool)
    silence = end - np.fmax(last_time[own], start)
    patience = GAP_INTERVALS * (reader.sampling_seconds or 1.0)  # a GPU that others went on sampling lost nothing
    seconds[own] = np.where(silence > patience, silence, 0.0)
    return seconds
