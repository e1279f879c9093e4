"""Where the GPU time of a trace went, exactly: the same categories as of a recording, read off the GPUs' kernels.

The job's time is that of its files together. Before the first kernel of any GPU is ``startup``, after the last ``end``. Of
the time between, a GPU works while a kernel computes, communicates while only such kernels run, and is idle otherwise:

- copies: one from or to the host runs;
- between_kernels: gaps of less than 30 µs, and as short a time from a launch to the kernel;
- input_output: a thread that launches the GPU's work loads data, or reads or writes;
- host: the next work was not launched yet, and the thread waited neither for a GPU nor for another process;
- imbalance: of the rest, and of the time before a GPU's own first and after its own last kernel, when others compute;
- unexplained: what is left.

Communication waits until the last GPU has begun the same operation, and transfers from then on; the n-th kernels of a name
are one operation if there are as many on each GPU and they run at the same time.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from gssr.arrays import Floats, Ints
from gssr.model.breakdown.categories import CATEGORIES, POSITIONS
from gssr.model.breakdown.result import Breakdown, Confidence
from gssr.model.traces.gpu_book import DECIDED, GpuBook, book_bins
from gssr.model.traces.segments import Segments, common, covered_by

_NS = 1e9
_MATCHED_SHARE = 0.5
"""What communication waits for is no guess if at least this share of its operations is known of several GPUs."""


def breakdown_of(
    books: Sequence[GpuBook], nodes: Sequence[str | None], told: Confidence = "measured"
) -> Breakdown | None:  # fmt: skip
    """Break down the time of a job into categories, by the ``books`` of its GPUs and the node of each (``nodes``, None:
    unknown). ``told``: how well the books tell it, a "guess" if events may be missing in them. Returns GPU-seconds by GPU
    and over time, with times in seconds from the trace's zero; None without GPUs."""
    if not books:
        return None
    begin, end = min(book.window[0] for book in books), max(book.window[1] for book in books)
    n_bins = book_bins(len(books))
    edges = begin + np.arange(n_bins + 1) * max(end - begin, 1) // n_bins
    by_gpu, over_time = np.zeros((len(books), len(CATEGORIES))), np.zeros((n_bins, len(CATEGORIES)))
    matched = total = 0
    for clock in dict.fromkeys(book.clock for book in books):
        places = [at for at, book in enumerate(books) if book.clock == clock]
        own = [books[at] for at in places]
        waits = _waits_for_others(own)
        known = [book for book in own if book.works is not None]
        works = (
            min(book.works[0] for book in known if book.works), max(book.works[1] for book in known if book.works)
        ) if known else None  # fmt: skip
        others = covered_by(*(book.kernels for book in own))
        for at, book, (waiting, n) in zip(places, own, waits, strict=True):
            matched, total = matched + n, total + sum(len(each.start) for each in book.collectives.values())
            for name, values in _book(book, works, others, waiting, edges, (begin, end)).items():
                seconds = np.diff(values) / _NS
                by_gpu[at, POSITIONS[name]] += seconds.sum()
                over_time[:, POSITIONS[name]] += seconds
    names = tuple(dict.fromkeys(node or "" for node in nodes))
    work = "kernel" if any(len(book.kernels.start) or len(book.communication.start) for book in books) else "copy"
    is_matched = matched >= _MATCHED_SHARE * total
    of_communication: Confidence = told if not total or told == "guess" else "inferred" if is_matched else "guess"
    confidence = tuple(of_communication if each.branch == "communication" else told for each in CATEGORIES)
    return Breakdown(
        by_gpu, over_time, names, np.array([names.index(node or "") for node in nodes], np.int64),
        edges[:-1] / _NS, (end - begin) / n_bins / _NS, 0.0, np.zeros(len(CATEGORIES)), confidence,
        {"working.other": "computes", "startup": f"before the first {work}", "end": f"after the last {work}"},
        of_communication == "inferred",
    )  # fmt: skip


def _book(
    book: GpuBook, works: tuple[int, int] | None, others: Segments, waiting: Segments, edges: Ints, job: tuple[int, int]
) -> Mapping[str, Ints | Floats]:
    """Book the time of one GPU. Returns for each category the ns that lie before each of the ``edges``.

    Args:
        book: the GPU's own book.
        works: from the first kernel of any GPU to the last one, ns. None: there are no kernels.
        others: when any GPU computes.
        waiting: when this GPU waits for others within communication.
        edges: edges of the bins of time, ns.
        job: begin and end of the time of the job, ns.
    """
    begin, end = book.window
    found = {"unmeasured": _before([(job[0], begin), (end, job[1])], edges)}
    if book.works is None or works is None:
        return found | {"unused": _before([(begin, end)], edges)}
    (first, last), (own_first, own_last) = works, book.works
    found["startup"] = _before([(begin, min(first, end))], edges)
    found["end"] = _before([(max(last, begin), end)], edges)
    outside = _segments([(max(first, begin), own_first), (own_last, min(last, end))])
    left = covered_by(outside, book.open)
    imbalance = common(left, others)
    found["idle.imbalance"] = imbalance.before(edges)
    found["idle.unexplained"] = left.before(edges) - found["idle.imbalance"]
    waiting = common(book.communication, waiting)
    found["communication.waiting"] = waiting.before(edges)
    found["communication.transferring"] = book.communication.before(edges) - found["communication.waiting"]
    decided = {name: np.interp(edges, book.edges, values) for name, values in zip(DECIDED, book.decided, strict=True)}
    return found | decided


def _waits_for_others(books: Sequence[GpuBook]) -> list[tuple[Segments, int]]:
    """Find out when GPUs wait for each other in communication. Returns for each GPU the times in which it is in a
    communication kernel that not all GPUs which take part have begun, and how many of its kernels are known of several
    GPUs."""
    by_name: dict[str, list[int]] = {}
    for at, book in enumerate(books):
        for name in book.collectives:
            by_name.setdefault(name, []).append(at)
    found: list[list[Segments]] = [[] for _ in books]
    n_known = [0] * len(books)
    for name, places in by_name.items():
        every = [books[at].collectives[name] for at in places]
        if len(every) < 2 or any(len(each.start) != len(every[0].start) for each in every):
            continue
        begun = np.max([each.start for each in every], axis=0)
        is_one = begun <= np.min([each.end for each in every], axis=0)
        for at, own in zip(places, every, strict=True):
            found[at].append(Segments(own.start[is_one], np.minimum(begun, own.end)[is_one]))
            n_known[at] += int(is_one.sum())
    return [(covered_by(*own), n) for own, n in zip(found, n_known, strict=True)]


def _segments(pairs: Sequence[tuple[int, int]]) -> Segments:
    return Segments(*np.array(pairs, np.int64).reshape(-1, 2).T).some


def _before(pairs: Sequence[tuple[int, int]], times: Ints) -> Ints:
    return _segments(pairs).before(times)
