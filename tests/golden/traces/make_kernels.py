"""Keep what ran on the GPUs of public traces, without names: ``python make_kernels.py FOLDER`` writes kernels/NAME.npz."""

import sys
from pathlib import Path

import numpy as np

from gssr.model.traces.gpu_names import gpus_of
from gssr.traces.open import open_runs
from gssr.traces.timeline import BUSY, OPERATIONS, Category, Kind

HERE = Path(__file__).parent / "kernels"
FILES = {
    "bert-h100": ("AMD-AGI+TraceLens__tests__traces__h100__gaunernst_bert-small-uncased__1016001.json.gz",),
    "bert-mi300": ("AMD-AGI+TraceLens__tests__traces__mi300__gaunernst_bert-small-uncased__1016001.json.gz",),
    "eager-b200": ("AMD-AGI+TraceLens__tests__traces__b200__eager_trace.json.gz",),
    "vllm": ("AMD-AGI+TraceLens__tests__traces__inference__vllm_prefilldecode_piecewise__graph_execution.json.gz",),
    "two-h100": ("GindaChen+nsys-ai__tests__fixtures__h100_2gpu_1s.sqlite",),
    "resolver": ("facebookresearch+HolisticTraceAnalysis__tests__data__df_index_resolver__df_index_resolver.json.gz",),
    "nccl": ("facebookresearch+HolisticTraceAnalysis__tests__data__nccl_parser_config__nccl_data.json.gz",),
    "queue": (
        "facebookresearch+HolisticTraceAnalysis__tests__data__negative_queue_length_values_check__rank0.json.gz",
    ),
    "dense": (
        "facebookresearch+HolisticTraceAnalysis__tests__data__ns_resolution_trace__rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz",
    ),
    "control": ("facebookresearch+HolisticTraceAnalysis__tests__data__trace_diff__control__control.json.gz",),
    "two-ranks": tuple(
        f"facebookresearch+HolisticTraceAnalysis__tests__data__trace_filter__sampled_rank-{rank}.json.gz"
        for rank in range(2)
    ),
}


def main() -> None:
    """Write all of FILES that are in the folder."""
    for name, files in FILES.items():
        rows: list[tuple[int, int, int, int]] = []
        n_gpus, begin, end = 0, [], []
        (run,) = open_runs([str(Path(sys.argv[1]) / file) for file in files])
        zero: int | None = None
        for timeline in run.timelines():
            unix = timeline.clock.unix_ns or 0
            zero = unix if zero is None else zero
            own, gpus = timeline.intervals, gpus_of(timeline.tracks)
            there = [gpu for gpu in dict.fromkeys(gpus) if gpu is not None]
            begin.append(int(own.start.min()) + unix - zero)
            end.append(int((own.start + own.length).max()) + unix - zero)
            for at in np.flatnonzero(np.isin(own.kind, BUSY)).tolist():
                gpu = gpus[own.track[at]]
                sort = int(own.category[at] == Category.COMMUNICATION)
                if own.kind[at] == Kind.MEMCPY:
                    sort = {"PtoP": 3, "DtoD": 0}.get(OPERATIONS[own.operation[at]], 2)
                if gpu is not None:
                    rows.append(
                        (int(own.start[at]) + unix - zero, int(own.length[at]), sort, n_gpus + there.index(gpu))
                    )
            n_gpus += len({gpus[track] for track in np.unique(own.track[np.isin(own.kind, BUSY)])} - {None})
        rows.sort()
        start, length, sort, gpu = np.array(rows).T
        np.savez_compressed(
            HERE / f"{name}.npz", window=np.array([max(begin), min(end)]),
            first=start[:1], step=np.diff(start).astype(np.int32), length=length.astype(np.int32),
            sort=sort.astype(np.int8), gpu=gpu.astype(np.int8),
        )  # fmt: skip
        print(name, n_gpus, len(rows), (HERE / f"{name}.npz").stat().st_size)


if __name__ == "__main__":
    main()
