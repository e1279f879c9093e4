"""Dumps of NCCL's flight recorder as PyTorch writes them: the layout is that of
``torch/csrc/distributed/c10d/FlightRecorderDetail.hpp``."""

import json
import pickle
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

START = 1_767_225_600_000_000_000


class Recorder:
    """The flight recorder of one rank. ``groups``: by name (description, ranks)."""

    def __init__(self, rank: int, groups: Mapping[str, tuple[str, Sequence[int]]], most: int = 2000) -> None:
        self.rank, self.groups, self.most = rank, groups, most
        self.entries: list[dict[str, Any]] = []
        self._numbers: dict[tuple[str, bool], int] = {}
        self._n = 0

    def gives(
        self, group: str, name: str, state: str = "completed", elements: Sequence[int] = (1024,), dtype: str = "Float",
        together: bool = False,
    ) -> None:  # fmt: skip
        """Give an operation to NCCL; ``together``: with the next one, under one number."""
        is_p2p = name.startswith(("send", "recv")) or name == "coalesced p2p"
        name = name.removesuffix(" p2p")
        key = (group, is_p2p)
        number = self._numbers.get(key, 0) + 1
        if not together:
            self._numbers[key] = number
        created = START + self._n * 1_000_000
        self.entries.append(
            {
                "frames": [{"name": "step", "filename": "/home/me/train.py", "line": 30}],
                "record_id": self._n, "pg_id": list(self.groups).index(group),
                "process_group": (group, self.groups[group][0]),
                "thread_name": "main", "thread_id": "1",
                "collective_seq_id": 0 if is_p2p else number, "p2p_seq_id": number if is_p2p else 0,
                "op_id": self._n, "profiling_name": f"nccl:{name}", "time_created_ns": created,
                "input_sizes": [list(elements)], "input_dtypes": [dtype], "output_sizes": [list(elements)],
                "output_dtypes": [dtype], "state": state,
                "time_discovered_started_ns": None if state == "scheduled" else created + 1000,
                "time_discovered_completed_ns": created + 500_000 if state == "completed" else None,
                "retired": state == "completed", "timeout_ms": 600_000, "is_p2p": is_p2p,
            }
        )  # fmt: skip
        self._n += 1

    def dump(self) -> dict[str, Any]:
        """What ``_dump_nccl_trace`` holds, unpickled."""
        return {
            "version": "2.10",
            "pg_config": {
                name: {"name": name, "desc": about, "ranks": str(list(ranks))}
                for name, (about, ranks) in self.groups.items()
                if any(entry["process_group"][0] == name for entry in self.entries)  # PyTorch notes them when first used
            },
            "nccl_version": "2.27.5",
            "pg_status": {
                "0": {"last_enqueued_collective": 0, "last_started_collective": 0, "last_completed_collective": 0}
            },
            "entries": self.entries[-self.most :],
        }  # fmt: skip

    def write(self, folder: Path, as_json: bool = False) -> Path:
        """Write the dump as PyTorch calls it, a pickle of protocol 2, or JSON."""
        path = folder / f"nccl_trace_rank_{self.rank}{'.json' if as_json else ''}"
        if as_json:
            held = self.dump()
            for entry in held["entries"]:
                del entry["frames"]
                entry["time_discovered_started_ns"] = entry["time_discovered_started_ns"] or 0
                entry["time_discovered_completed_ns"] = entry["time_discovered_completed_ns"] or 0
            path.write_text(json.dumps(held, sort_keys=True, separators=(",", ":")), encoding="ascii")
        else:
            path.write_bytes(pickle.dumps(self.dump(), protocol=2))
        return path


WORLD = {"0": ("default_pg", (0, 1, 2, 3))}
TWO_GROUPS = {
    "0": ("default_pg", (0, 1, 2, 3)), "1": ("tp", (0, 1)), "2": ("tp", (2, 3)),
}  # fmt: skip


def stepped(rank: int, steps: int, groups: Mapping[str, tuple[str, Sequence[int]]] = WORLD) -> Recorder:
    """A rank after so many steps, each an all-gather and an all-reduce of all ranks."""
    own = Recorder(rank, groups, 2000)
    for _ in range(steps):
        own.gives("0", "_all_gather_base", elements=(256, 4))
        own.gives("0", "all_reduce")
    return own


def absent(missing: Iterable[int] = (3,)) -> list[Recorder]:
    """Four ranks, of which some never come to the last all-reduce."""
    ranks = [stepped(rank, 3) for rank in range(4)]
    for own in ranks:
        own.gives("0", "_all_gather_base", elements=(256, 4))
        if own.rank not in missing:
            own.gives("0", "all_reduce", "started")
    return ranks


def different(name: str = "all_reduce", elements: Sequence[int] = (1000,), dtype: str = "Float") -> list[Recorder]:
    """Four ranks, of which the second comes to the last operation with another one, another size or type."""
    ranks = [stepped(rank, 2) for rank in range(4)]
    for own in ranks:
        own.gives("0", *(("all_reduce", "started") if own.rank != 1 else (name, "scheduled", elements, dtype)))
    return ranks


def chained() -> list[Recorder]:
    """Four ranks; rank 3 is held up outside of NCCL, rank 2 waits for it in their own group, and so 0 and 1 for both."""
    ranks = [
        stepped(rank, 2, {name: each for name, each in TWO_GROUPS.items() if rank in each[1]}) for rank in range(4)
    ]
    for own in ranks:
        mine = "1" if own.rank < 2 else "2"
        own.gives(mine, "all_reduce")
        if own.rank < 2:
            own.gives("0", "all_reduce", "started")
        elif own.rank == 2:
            own.gives(mine, "all_reduce", "started")
    return ranks


def piped() -> list[Recorder]:
    """Two ranks of a pipeline: the first sends, and the second has not come to receive."""
    groups = {"0": ("default_pg", (0, 1))}
    first, second = Recorder(0, groups), Recorder(1, groups)
    for own, name in ((first, "send 0->1"), (second, "recv 1<-0")):
        own.gives("0", name)
    first.gives("0", "send 0->1", "started")
    return [first, second]
