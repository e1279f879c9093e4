"""All planted causes by name, with the machines and the views for which each is drawn."""

from collections.abc import Callable
from dataclasses import dataclass

from tests.fakes.unseen_jobs import causes_parallel, causes_single
from tests.fakes.unseen_jobs.draft import Draft
from tests.fakes.unseen_jobs.healthy import HEALTHY
from tests.fakes.unseen_jobs.machines import VIEWS

DCGM = ("full", "gpm")
COUNTED = ("full", "gpm", "exporter", "imported")
"""Views with profiling counters: those that tell a kernel which spins from one that works."""
RECORDED = tuple(view for view in VIEWS if view != "imported")
"""Views whose events a sampler has told: of a dump the metrics are known alone."""
NVIDIA = (*COUNTED, "nvml")


@dataclass(frozen=True)
class Kind:
    """One kind of job: its function, fewest and most GPUs and nodes, and the views in which it can be seen."""

    make: Callable[[Draft], None]
    gpus: tuple[int, int] = (1, 64)
    views: tuple[str, ...] = VIEWS
    nodes: tuple[int, int] = (1, 16)


_SINGLE: dict[str, tuple[tuple[int, int], tuple[str, ...]]] = {
    "loader_too_slow": ((1, 16), VIEWS), "loader_in_main_process": ((1, 8), VIEWS), "few_cores": ((1, 8), VIEWS),
    "slow_file_system": ((1, 32), VIEWS), "local_disk_reads": ((1, 8), VIEWS), "file_system_stalls": ((1, 32), VIEWS),
    "synchronous_checkpoints": ((1, 64), VIEWS), "long_start": ((1, 16), VIEWS), "idle_at_end": ((1, 16), VIEWS),
    "host_code": ((1, 32), VIEWS), "all_cores_in_turn": ((1, 32), VIEWS), "offloaded_optimizer": ((1, 8), VIEWS),
    "waits_for_copies": ((1, 16), NVIDIA), "states_on_host": ((1, 4), NVIDIA), "pages_of_unified_memory": ((1, 4), DCGM),
    "launch_bound": ((1, 8), VIEWS), "tiny_batches": ((1, 4), VIEWS), "few_sms": ((1, 1), VIEWS),
    "low_occupancy": ((1, 8), DCGM), "float32_products": ((1, 16), DCGM), "float64_by_accident": ((1, 4), DCGM),
    "thermal_throttling": ((1, 16), VIEWS), "power_brake": ((1, 8), NVIDIA), "power_limit_lowered": ((1, 16), VIEWS),
    "clocks_set_low": ((1, 16), NVIDIA), "little_traffic": ((1, 8), VIEWS), "notebook": ((1, 1), VIEWS),
    "synchronises_often": ((1, 4), COUNTED), "restarts_out_of_memory": ((1, 16), VIEWS),
}  # fmt: skip
_PARALLEL: dict[str, tuple[tuple[int, int], tuple[str, ...], tuple[int, int]]] = {
    "fixed_straggler": ((4, 64), COUNTED, (1, 16)), "slow_clock_of_one": ((4, 64), VIEWS, (1, 16)),
    "hot_gpu": ((4, 32), VIEWS, (1, 8)), "slow_node": ((4, 64), COUNTED, (2, 16)),
    "node_with_slow_host": ((4, 32), VIEWS, (2, 4)), "rotating_stragglers": ((4, 64), COUNTED, (1, 16)),
    "garbage_collection": ((8, 64), COUNTED, (1, 16)), "uneven_domains": ((2, 64), VIEWS, (1, 16)),
    "early_ends": ((4, 64), VIEWS, (1, 16)), "late_starts": ((4, 64), VIEWS, (1, 16)),
    "evaluation_on_one": ((4, 32), COUNTED, (1, 8)), "checkpoint_by_rank_zero": ((4, 32), COUNTED, (1, 8)),
    "pipeline_bubbles": ((4, 64), COUNTED, (1, 16)), "uneven_stages": ((4, 64), COUNTED, (1, 16)),
    "naive_pipeline": ((2, 8), VIEWS, (1, 1)), "collectives_over_pcie": ((2, 8), COUNTED, (1, 1)),
    "slow_fabric": ((4, 64), COUNTED, (2, 16)), "experts_exchange": ((8, 64), DCGM, (1, 16)),
    "small_messages": ((4, 64), COUNTED, (1, 16)), "tensor_parallel_over_slow_links": ((4, 16), COUNTED, (1, 4)),
    "hang_in_collective": ((4, 64), VIEWS, (1, 16)), "hang_on_host": ((1, 32), VIEWS, (1, 8)),
    "unused_gpus": ((2, 16), VIEWS, (1, 4)), "one_process_of_many": ((4, 8), VIEWS, (1, 1)),
    "data_parallel_in_one_process": ((2, 8), VIEWS, (1, 1)), "lost_gpu": ((4, 32), RECORDED, (1, 8)),
}  # fmt: skip
SICK: dict[str, Kind] = {
    **{name: Kind(getattr(causes_single, name), gpus, views) for name, (gpus, views) in _SINGLE.items()},
    **{
        name: Kind(getattr(causes_parallel, name), gpus, views, nodes)
        for name, (gpus, views, nodes) in _PARALLEL.items()
    },
}
WELL: dict[str, Kind] = {name: Kind(make, gpus, views) for name, (make, gpus, views) in HEALTHY.items()}
