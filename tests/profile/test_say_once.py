"""What all ranks of a run have to say is said by one of them, and what only one has to say by that one."""

import os
import subprocess
import sys
from pathlib import Path

from gssr.backends.synthetic.bulk import generate

ROOT = Path(__file__).parent.parent.parent
RANKS, NODES = 4, 2
NO_NSYS = "gssr: --trace nsys: nsys is not found on PATH: the command runs without it"


WAITS = f"trap ': > over.$SLURM_PROCID' TERM; until set -- over.*; [ $# = {RANKS} ]; do sleep 0.05; done; exit 7"
"""A command that is told to end, and ends once the commands of all ranks are."""


def said(
    folder: Path, *options: str, nodes: int = NODES, own: dict[int, tuple[str, ...]] | None = None
) -> tuple[list[str], list[int]]:
    """What the ranks of a step said, line by line, and their exit codes. ``own``: more options of some ranks."""
    tools = folder / "tools"
    if not tools.exists():  # the only programs that the ranks have
        tools.mkdir()
        for name in ("sh", "sleep", "true"):
            (tools / name).symlink_to(f"/bin/{name}")
    ranks = []
    for rank in range(RANKS):
        environ = os.environ | {
            "PYTHONPATH": str(ROOT), "PATH": str(tools), "SLURM_JOB_ID": "1", "SLURM_STEP_ID": "0",
            "SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank % (RANKS // nodes)), "SLURM_STEP_NUM_TASKS": str(RANKS),
            "SLURM_STEP_NUM_NODES": str(nodes), "SLURMD_NODENAME": f"node{rank * nodes // RANKS}", "SLURM_CLUSTER_NAME": "c",
        }  # fmt: skip
        first, last = options[: options.index("--")], options[options.index("--") :]
        command = [sys.executable, "-m", "gssr", "profile", "-t", "50", *first, *(own or {}).get(rank, ()), *last]
        pipe, null = subprocess.PIPE, subprocess.DEVNULL
        ranks.append(subprocess.Popen(command, env=environ, cwd=folder, text=True, stdin=null, stderr=pipe))
    lines = [
        line for rank in ranks for line in rank.communicate(timeout=60)[1].splitlines() if line.startswith("gssr: ")
    ]
    return lines, [rank.returncode for rank in ranks]


def test_what_is_refused_to_all_ranks_is_one_line(tmp_path: Path) -> None:
    generate(str(tmp_path / "a.sql"), "idle", 2, 0.01, 0.5)
    lines, codes = said(tmp_path, "--backend", "synthetic:idle:1", "-o", "a.sql", "--", "true", nodes=1)
    assert lines == ["gssr: -o a.sql: exists; use -f to overwrite it or -a to add a run to it"]
    assert codes == [2] * RANKS
    lines, codes = said(tmp_path, "-a", "-f", "-o", "a.sql", "--", "true")
    assert len(lines) == 1 and lines[0].startswith("gssr: -f overwrites") and codes == [2] * RANKS
    assert sorted(os.listdir(tmp_path)) == ["a.sql", "tools"]  # the signs are gone as well


def test_what_only_one_rank_has_to_say_comes_out(tmp_path: Path) -> None:
    options = ("--no-summary", "--backend", "synthetic:idle:1", "-o", "a.sql", "--", "true")
    lines, codes = said(tmp_path, *options, own={3: ("--backend", "nonsense")})
    assert len(lines) == 1 and lines[0].startswith("gssr: --backend: ") and "nonsense" in lines[0]
    assert codes == [0, 0, 0, 2]
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".")]
    lines, _ = said(tmp_path, *options[:4], "b.sql", *options[5:], own={2: ("--trace", "nsys")})
    assert lines == [NO_NSYS]


def test_ranks_that_record_say_once_what_all_of_them_lack(tmp_path: Path) -> None:
    backend = ("--backend", "amd")  # which no machine of the tests has
    options = ("--no-summary", *backend, "-o", "a.sql", "--trace", "nsys")
    lines, codes = said(tmp_path, *options, "-m", "0.5", "--", "sh", "-c", WAITS)
    lines.remove(NO_NSYS)
    overdue = [line for line in lines if "--max-runtime" in line]
    assert 1 <= len(overdue) <= NODES  # nobody waits for a filesystem while the command runs
    (no_gpu,) = set(lines).difference(overdue)
    assert no_gpu.startswith("gssr: no GPU is sampled: ") and lines.count(no_gpu) == 1
    assert codes == [7] * RANKS
    lines, codes = said(tmp_path, "--no-summary", "--backend", "synthetic:idle:1", "-o", "b.sql", "--", "no-such")
    assert lines == ["gssr: no-such: command not found"] and codes == [127] * RANKS


def test_where_nothing_can_be_recorded_one_rank_of_each_node_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    lines, codes = said(tmp_path, "--backend", "synthetic:idle:1", "-o", "file/a.sql", "--", "sleep", "2")
    assert len(lines) == NODES and len(set(lines)) == 1
    assert lines[0].startswith(f"gssr: nothing is recorded: {tmp_path}/file/a.sql.d: can't be written: ")
    assert codes == [0] * RANKS
