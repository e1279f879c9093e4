"""Which hosts are asked, by which command, and what Slurm says of a job."""

from pathlib import Path

import pytest

from gssr.profile.hosts.job import _nodes_of, seconds_left
from gssr.profile.hosts.reach import MOST_HOSTS, by_srun, by_ssh, host_names, read_hostfile
from gssr.profile.request import UsageError
from gssr.render.glyphs import glyph_set
from gssr.render.roles import text_of
from gssr.report.live.hosts import host_rows
from gssr.store.host_states import HostState, HostStates, JobState, read_states, write_states

WORDS = ("top", "--lines")


@pytest.mark.parametrize("name", ["-oProxyCommand=touch /tmp/x", "-l", "a b", "a;b", "a$(b)", "a`b`", "a\nb", "a/b", "ä",
                                  "@a", "-u@a", "a@-b", "a@b@c", "[::1]", "a" * 300])  # fmt: skip
def test_what_is_no_name_of_a_host_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="no name of a host"):
        host_names(["good", name])


def test_names_are_taken_once_and_not_without_end() -> None:
    assert host_names(["b", "a", " b ", "", "me@a.b-c_d", "::1", "10.0.0.7"]) == [
        "b",
        "a",
        "me@a.b-c_d",
        "::1",
        "10.0.0.7",
    ]
    with pytest.raises(UsageError, match="no host"):
        host_names(["", " "])
    with pytest.raises(UsageError, match="more than"):
        host_names(map(str, range(MOST_HOSTS + 1)))


def test_a_hostfile_names_a_host_a_line(tmp_path: Path) -> None:
    file = tmp_path / "hosts"
    file.write_text("# nodes\nn1 slots=8\n\n  n2  # the second\n#n3\n")
    assert read_hostfile(str(file)) == ["n1", "n2"]
    file.write_bytes(b"n\n" * (1 << 20))
    with pytest.raises(UsageError, match="too large"):
        read_hostfile(str(file))
    with pytest.raises(UsageError, match="No such file"):
        read_hostfile(str(tmp_path / "none"))


def test_ssh_gets_the_name_after_two_dashes_and_one_quoted_command() -> None:
    first, second = by_ssh(["me@n1", "n2"], "/opt/my gssr", WORDS)
    assert first.command[0] == "ssh" and first.command[-3:] == ("--", "me@n1", "'/opt/my gssr' top --lines")
    assert first.hosts == ("n1",) and not first.labelled and second.command[-2] == "n2"
    assert [channel.hosts for channel in by_ssh(["a@n1", "b@n1"], None, WORDS)] == [("a@n1",), ("b@n1",)]


def test_srun_gets_long_options_with_their_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_NTASKS", "64")
    monkeypatch.setenv("SLURM_CONF", "/etc/slurm.conf")
    channel = by_srun("7", ["n1", "n2"], ["--gres=gpu:4"], "/opt/gssr", WORDS)
    program = channel.command.index("--")
    options = channel.command[1:program]
    assert all(option.startswith("--") for option in options)
    assert {"--jobid=7", "--overlap", "--nodes=2", "--ntasks=2", "--nodelist=n1,n2", "--gres=gpu:4"} <= {*options}
    assert channel.command[program:] == ("--", "/opt/gssr", *WORDS) and channel.labelled
    assert "SLURM_NTASKS" not in channel.environ and channel.environ["SLURM_CONF"] == "/etc/slurm.conf"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("12", 12.0), ("1:02", 62.0), ("2:00:01", 7201.0), ("3-04:05:06", 273906.0), ("UNLIMITED", None), ("NOT_SET", None),
     ("", None), ("1-", None)],
)  # fmt: skip
def test_times_are_read_as_squeue_writes_them(text: str, seconds: float | None) -> None:
    assert seconds_left(text) == seconds


DETAILS = """   JOB_GRES=gpu:8
     Nodes=n1 CPU_IDs=0 Mem=0 GRES=gpu:a100:4(IDX:0-3)
     Nodes=n2 CPU_IDs=1-2 Mem=10 GRES=gpu:a100:1(IDX:0),gpu:1g.5gb:3(IDX:1-3)
     Nodes=n3 CPU_IDs=0 Mem=0 GRES=
     Nodes=n4 CPU_IDs=0 Mem=0 GRES=gpu:2(IDX:0,3)
"""


def test_nodes_with_as_many_gpus_are_one_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gssr.profile.hosts.job._hostnames", lambda nodes: tuple(nodes.split(",")))
    every = ("n1", "n2", "n3", "n4")
    assert _nodes_of(DETAILS, every) == (
        (("n1", "n2"), ("--gres=gpu:4",)), (("n3",), ("--gres=none",)), (("n4",), ("--gres=gpu:2",)),
    )  # fmt: skip
    of_job = _nodes_of(DETAILS + "   TresPerJob=gres:gpu:10\n", every)
    assert [nodes.gpus for nodes in of_job] == [("--gres=gpu:4",), ("--gres=none",), ("--gpus=2",)]
    assert _nodes_of(DETAILS, (*every, "n5")) == (((*every, "n5"), ()),)


def host(
    name: str, word: str = "live", reason: str = "", memory: tuple[int, int] | None = None, broken: int = 0
) -> HostState:
    return HostState(name, word, reason, 1.0, 4, True, broken, memory)  # type: ignore[arg-type]


def said(states: HostStates, width: int = 200, most: int | None = None, ascii_only: bool = False) -> list[str]:
    return [text_of(row) for row in host_rows(states, 1000.0, width, glyph_set(ascii_only), most)]


def test_hosts_and_job_are_told_in_words_and_marks() -> None:
    job = JobState("7", "alice", "train", 1000.0 + 3 * 3600 + 725)
    near = host("n3", memory=(60 << 30, 64 << 30))
    hosts = (
        host("n1"),
        host("n2", "gone", "Connection closed"),
        near,
        host("n4", "slow", "nothing has come for 9 s", broken=2),
    )
    assert said(HostStates(hosts, job, 2, 750.0)) == [
        "job 7  train of alice  3 h 12 min left  2 of 12 GPUs idle for 12 min  4 hosts:  ● 2 live  ◌ 1 slow  ✗ 1 gone  "
        "n3: 60.0 of the 64.0 GiB of memory that it may use",
        "✗ n2 gone: Connection closed",
        "◌ n4 slow: nothing has come for 9 s; 2 lines of it could not be read",
    ]
    nothing = HostStates((host("n1"), host("n2", memory=(60 << 30, 64 << 30))), None, 0, 0.0)
    assert said(nothing) == ["2 hosts:  ● 2 live"], "no job, no idle GPU, and another's cgroup"
    assert said(HostStates((host("n1", "waiting"),), None, 0, 0.0), ascii_only=True) == ["1 host:  . 1 waiting"]


def test_of_many_that_are_gone_so_many_are_named_as_there_is_room() -> None:
    states = HostStates(tuple(host(f"n{n}", "gone", "x" * 200) for n in range(9)), None, 0, 0.0)
    for most, n_rows, more in ((None, 10, ""), (4, 4, "  6 more"), (2, 2, "  8 more"), (1, 2, "  8 more")):
        rows = said(states, 80, most)
        assert len(rows) == n_rows and all(len(row) <= 80 for row in rows) and rows[-1].endswith(more or "…")


def test_states_are_kept_beside_the_recording(tmp_path: Path) -> None:
    path = str(tmp_path / "recording.sql")
    assert read_states(path) is None
    for job in (None, JobState("7", "u", "n", None)):
        states = HostStates((host("n1", memory=(1, 2)), host("n2")), job, 1, 61.0)
        write_states(path, states)
        found = read_states(path)
        assert found is not None and found._replace(hosts=()) == states._replace(hosts=())
        assert [(*each[:7], each.memory and (*each.memory,)) for each in found.hosts] == [
            (*each,) for each in states.hosts
        ]


def test_a_job_without_a_host_has_no_time_left() -> None:
    job = JobState("7", "alice", "train", 1000.0 + 600)
    (first, *_) = said(HostStates((host("n1", "gone", "Node failure"), host("n2", "gone")), job, 0, 0.0))
    assert "min left" not in first and "no host is left: it is over, or its nodes failed" in first
    assert "10 min left" in said(HostStates((host("n1", "gone"), host("n2")), job, 0, 0.0))[0]


def test_of_a_job_of_which_nothing_was_seen_it_is_not_said_to_be_over() -> None:
    job = JobState("7", "alice", "train", 1000.0 + 600)
    refused = host("n1", "gone", "Access/permission denied")._replace(seconds=None)
    first, second = said(HostStates((refused,), job, 0, 0.0))
    assert "none of its hosts can be seen" in first and "over" not in first and "Access/permission denied" in second
