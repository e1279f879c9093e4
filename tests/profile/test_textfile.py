"""--textfile: node_exporter's file beside a recording holds what was sampled, is whole, and is gone when the run is."""

import errno
import json
import os
import re
import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from supervised import sampler_of

from gssr.backends.base import Device
from gssr.metrics import NAMES, PLACES
from gssr.profile.sampling.textfile import EVERY_SECONDS, NAMES_AT_ONCE, Textfile
from gssr.store.liveness import boot_id, process_start
from tests.waiting import PATIENCE, until

ROOT = Path(__file__).parent.parent.parent
Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts ``gssr profile --textfile tf`` of a command that runs until it is ended, in a folder of its own."""
    (tmp_path / "tf").mkdir()
    begun: list[subprocess.Popen[str]] = []

    def starting(job: str, *words: str, before: tuple[str, ...] = ()) -> subprocess.Popen[str]:
        environ = os.environ | {"PYTHONPATH": str(ROOT)} | ({"SLURM_JOB_ID": job} if job else {})
        profile = ["profile", "--backend", "synthetic:train:2", "-t", "50", "-o", f"{job or 'none'}-{len(begun)}.sql"]
        command = [*before, sys.executable, "-m", "gssr", *profile, "--textfile", "tf", *words, "--", "sleep", "600"]
        begun.append(
            subprocess.Popen(
                command,
                cwd=tmp_path,
                env=environ,
                text=True,
                stderr=subprocess.PIPE,
                start_new_session=True,
                umask=0o077,
            )
        )
        return begun[-1]

    yield starting
    for process in begun:
        if process.poll() is None:
            process.terminate()
        process.communicate(timeout=PATIENCE)


def ended(process: subprocess.Popen[str]) -> str:
    process.send_signal(signal.SIGTERM)
    return process.communicate(timeout=PATIENCE)[1]


def samples(text: str) -> dict[tuple[str, str], float]:
    lines = [line for line in text.splitlines() if not line.startswith(("#", "gssr_run_info"))]
    found = [re.fullmatch(r'(\w+)\{[^{}]*gpu="(\d)"[^{}]*\} (\S+)', line) for line in lines]
    return {(match[1], match[2]): float(match[3]) for match in found if match}


def test_it_holds_what_was_sampled_for_everybody_to_read(start: Start, tmp_path: Path, requires: Any) -> None:
    requires("promtool", package="prometheus")
    process = start("77", "-l", "label")
    path = until(lambda: next((tmp_path / "tf").glob("*.prom"), None))
    text = path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    node = os.uname().nodename
    assert path.name == f"gssr_{node}_77_0.prom" and [each.name for each in (tmp_path / "tf").iterdir()] == [path.name]
    with path.open() as stream:
        checked = subprocess.run(["promtool", "check", "metrics"], stdin=stream, capture_output=True, text=True)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")
    assert (
        set(re.findall(r"[{,](\w+)=", text)) == {"job_id", "node", "gpu", "uuid", "model"}
        and f'gssr_run_info{{job_id="77",node="{node}",' in text
    )
    assert "sleep" not in text and "label" not in text
    assert "recorded into" in ended(process)
    assert not list((tmp_path / "tf").iterdir())
    with closing(sqlite3.connect(tmp_path / "77-0.sql")) as recording:
        (run_id,) = recording.execute("SELECT run_id FROM runs").fetchone()
        rows = recording.execute("SELECT device_index, power_usage, sm_clock * 1e6 FROM gpu_samples").fetchall()
    assert run_id not in text
    found = samples(text)
    for gpu in ("0", "1"):
        own = found["gssr_power_usage_watts", gpu], found["gssr_sm_clock_hertz", gpu]
        assert (int(gpu), *own) in rows
    assert "gssr_energy_joules_total" in text and "c2c" not in text


def test_what_a_killed_one_leaves_is_removed_by_the_next_and_nothing_else(start: Start, tmp_path: Path) -> None:
    folder, node = tmp_path / "tf", os.uname().nodename
    names = [f"gssr_{node}_{job}_0.prom" for job in (1, 2, 3)]
    (folder / "other.prom").write_text("somebody's")
    first = start("1")
    second = start("2")
    until(lambda: (folder / names[0]).exists() and (folder / names[1]).exists())
    os.kill(sampler_of(first.pid), signal.SIGKILL)
    first.send_signal(signal.SIGTERM)
    first.communicate(timeout=PATIENCE)
    assert (folder / names[0]).exists()
    again = start("2")  # the same job: its series are there already
    start("3")
    until(lambda: (folder / names[2]).exists() and not (folder / names[0]).exists())
    assert "another recording on this node writes it" in until(lambda: again.stderr and again.stderr.readline())
    ended(again)
    assert sorted(path.name for path in folder.iterdir()) == [*names[1:], "other.prom"]
    assert str(sampler_of(second.pid)) in (folder / names[1]).read_text().partition("\n")[0]


def test_a_full_disk_harms_nothing_and_is_one_sentence(start: Start, tmp_path: Path, fuse: None) -> None:  # noqa: ARG001
    rights = () if os.geteuid() == 0 else ("--user", "--map-root-user")
    mount = 'mount -t tmpfs -o size=4k,nr_inodes=9 none tf && exec "$@"'
    process = start("5", "--max-runtime", "3", before=("unshare", *rights, "--mount", "sh", "-c", mount, "sh"))
    said = process.communicate(timeout=PATIENCE)[1]
    assert said.count("--textfile") == 1 and "tf: can't be written: No space left on device" in said
    assert "recorded into" in said and process.returncode == 143


ROW = {"power_usage": 250.0, "sm_clock": 1980, "energy": 5e8, "sm_active": 0.5}
GPUS = [Device(0, "GPU-a"), Device(1, 'GPU-"b"', mig="1g.10gb")]


def row(gpu: int, when: float, **values: float | None) -> tuple[Any, ...]:
    return (gpu, when, *((ROW | values).get(name) for name in NAMES))


def textfile(folder: Path, said: list[str]) -> Textfile:
    found = Textfile(str(folder), "n1", None, 3, said.append)
    found.add_gpus(GPUS, list(ROW), 0.5)
    return found


def test_what_is_missing_or_old_is_left_out(tmp_path: Path) -> None:
    said: list[str] = []
    own, path = textfile(tmp_path, said), tmp_path / "gssr_n1_-_3.prom"
    own.tick(0.0)
    assert not path.exists()  # there is nothing to tell
    own.add([row(0, 100.0, sm_active=None), row(1, 99.0, power_usage=float("nan")), row(1, 100.0, sm_active=None)])
    own.tick(100.0)
    text = path.read_text()
    labels = [
        '{node="n1",rank="3",gpu="0",uuid="GPU-a"}',
        '{node="n1",rank="3",gpu="1",uuid="GPU-\\"b\\"",mig="1g.10gb"}',
    ]
    assert [line for line in text.splitlines() if line[0] != "#"] == [
        *(f"gssr_run_info{each} 1" for each in labels),
        *(f"gssr_power_usage_watts{each} 250.0" for each in labels),
        *(f"gssr_energy_joules_total{each} 500000000.0" for each in labels),
        *(f"gssr_sm_clock_hertz{each} 1980000000.0" for each in labels),
    ]
    own.add([row(0, 102.0)])
    own.tick(100.0 + EVERY_SECONDS - 0.1)
    assert path.read_text() == text  # not yet
    own.tick(105.1)
    assert "sm_active" in path.read_text() and 'gpu="1"' not in path.read_text()  # that is lost since
    own.tick(200.0)
    assert not samples(path.read_text()) and not said
    own.remove()
    assert not list(tmp_path.iterdir())


def test_nothing_is_written_through_what_was_planted(tmp_path: Path) -> None:
    folder, said = tmp_path / "tf", list[str]()
    folder.mkdir()
    target, path = tmp_path / "target", folder / "gssr_n1_-_3.prom"
    target.write_text("precious")
    path.symlink_to(target)
    os.mkfifo(folder / "gssr_n1_-_4.prom")
    own = textfile(folder, said)
    own.add([row(0, 1.0)])
    own.tick(1.0)
    assert target.read_text() == "precious" and not path.is_symlink() and samples(path.read_text())
    path.unlink()
    path.mkdir()
    own.tick(10.0)
    own.tick(20.0)
    assert said == [f"--textfile {folder}: can't be written: Is a directory"]
    own.remove()
    assert sorted(each.name for each in folder.iterdir()) == [path.name, "gssr_n1_-_4.prom"]
    path.rmdir()
    own.add([row(0, 30.0)])
    own.tick(30.0)
    assert samples(path.read_text()) and len(said) == 1


def test_only_what_is_known_to_be_over_and_ours_is_removed(tmp_path: Path) -> None:
    me, boot = os.getpid(), boot_id() or ""
    start = process_start(me)
    gone = subprocess.Popen(["true"])
    gone.wait()
    kept: dict[str, Any] = {
        "gssr_alive.prom": [me, start, boot, "n1"],
        "gssr_other_node.prom": [gone.pid, 1, boot, "n2"],
        "gssr_other_container.prom": [gone.pid, 1, f"{boot.split()[0]} pid:[1]", "n1"],
        "gssr_wrong.prom": [gone.pid, 1, boot],
        "gssr_odd.prom": {"pid": 1},
        "gssr_deep.prom": None,
        "older.prom": [gone.pid, 1, boot, "n1"],
    }
    removed = {"gssr_gone.prom": [gone.pid, 1, boot, "n1"], "gssr_reused.prom": [me, 1, boot, "n1"]}
    removed |= {"gssr_before_boot.prom": [me, start, "another", "n1"], ".gssr_0": [gone.pid, 1, boot, "n1"]}
    for name, owner in (kept | removed).items():
        (tmp_path / name).write_text(f"# gssr {json.dumps(owner)}\n")
    (tmp_path / "gssr_deep.prom").write_text("# gssr " + "[" * 900)
    (tmp_path / ".gssr_1").write_text("")
    (tmp_path / ".gssr_2").write_text("")
    os.utime(tmp_path / ".gssr_2", (1.0, 1.0))
    own = textfile(tmp_path, [])
    own.add([row(0, 1.0)])
    own.tick(1.0)
    assert {path.name for path in tmp_path.iterdir()} == {*kept, ".gssr_1", "gssr_n1_-_3.prom"}


def test_a_folder_of_many_files_is_tidied_bit_by_bit(tmp_path: Path) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    head = f"# gssr {json.dumps([gone.pid, 1, boot_id(), 'n1'])}\n"
    n, said = 5 * NAMES_AT_ONCE, list[str]()
    for number in range(n):
        (tmp_path / f"gssr_{number}.prom").write_text(head)
    own = textfile(tmp_path, said)
    left = [n]
    for tick in range(7):
        own.add([row(0, tick * EVERY_SECONDS)])
        own.tick(tick * EVERY_SECONDS)
        assert samples((tmp_path / "gssr_n1_-_3.prom").read_text())
        left.append(len(os.listdir(tmp_path)) - 1)
        assert left[-2] - left[-1] <= NAMES_AT_ONCE
    assert left[1] >= n - NAMES_AT_ONCE and left[-1] == 0 and not said


def test_a_folder_that_can_not_be_listed_is_written_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str) -> Any:
        raise PermissionError(errno.EACCES, "Permission denied", path)

    monkeypatch.setattr(os, "scandir", refuse)  # root may list every folder
    said: list[str] = []
    own = textfile(tmp_path, said)
    own.add([row(0, 1.0)])
    own.tick(1.0)
    assert samples((tmp_path / "gssr_n1_-_3.prom").read_text()) and not said


def test_all_metrics_have_a_column(tmp_path: Path) -> None:
    own = Textfile(str(tmp_path), "n1", "a/../b", 0, print)
    own.add_gpus(GPUS[:1], NAMES, 0.5)
    own.add([(0, 1.0, *(float(PLACES[name]) for name in NAMES))])
    own.tick(1.0)
    found = samples((tmp_path / "gssr_n1_a-..-b_0.prom").read_text())
    assert sorted(found.values()) == sorted(PLACES[name] * (1e6 if name == "sm_clock" else 1.0) for name in NAMES)


def test_gpus_of_other_ranks_come_later_with_their_ranks(tmp_path: Path) -> None:
    own = textfile(tmp_path, [])
    own.add_gpus([GPUS[0]._replace(uuid="GPU-of-5")], list(ROW), 0.5, [5])
    own.add([row(0, 1.0), row(len(GPUS), 1.0)])
    own.tick(1.0)
    text = (tmp_path / "gssr_n1_-_3.prom").read_text()
    assert {('rank="5"' in line, "GPU-of-5" in line) for line in text.splitlines() if "{" in line and line[0] != "#"} == {
        (True, True), (False, False),
    }  # fmt: skip
    heads = [line for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(heads) == len(set(heads)), "each family once"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--textfile", "no/such"], 0, "no/such: can't be written: No such file or directory\n"),
        (["--textfile", "file"], 0, "file: can't be written: Not a directory\n"),
        (["--textfile", ".", "--redact"], 2, "--textfile names node, job and GPUs, --redact leaves them out"),
    ],
)
def test_what_can_not_be_is_said_in_a_line(tmp_path: Path, words: list[str], code: int, said: str) -> None:
    (tmp_path / "file").write_text("")
    command = [sys.executable, "-m", "gssr", "profile", "--no-summary", "--backend", "synthetic:idle:1", "-t", "50"]
    done = subprocess.run(
        [*command, *words, "--", "sleep", "0.9"], cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT)}, text=True,
        capture_output=True,
    )  # fmt: skip
    assert done.returncode == code and said in done.stderr and done.stderr.count("\n") == 1
