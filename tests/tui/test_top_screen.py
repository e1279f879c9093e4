"""``gssr top`` in real terminals: what is shown, kept, and left behind; and how screens are told to begin."""

import os
import shlex
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from test_terminal import ON

from gssr.store.read.recording import open_recording
from tests.tmux import GSSR, Tmux
from tests.tmux import tmux as tmux  # the fixture
from tests.waiting import until, until_ended

TOP = (*GSSR, "top", "--backend", "synthetic:imbalanced:6", "-t", "100")


@pytest.fixture
def room(tmp_path: Path) -> Path:
    """Where recordings of the moment are made: nothing may be left there."""
    folder = tmp_path / "room"
    folder.mkdir(mode=0o700)
    return folder


def environ(room: Path) -> dict[str, str]:
    """That of a terminal, in a folder of its own, of a user with those settings that are in ``room/../gssr``."""
    return {"XDG_RUNTIME_DIR": str(room), "XDG_CONFIG_HOME": str(room.parent), "PYTHONPATH": os.getcwd()}


def settings(room: Path, text: str) -> Path:
    file = room.parent / "gssr" / "config.toml"
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    file.chmod(0o644)
    return file


def in_folder(folder: Path, *command: str) -> tuple[str, ...]:
    """A command that is started in this folder."""
    return ("sh", "-c", shlex.quote(f"cd {shlex.quote(str(folder))} && exec {shlex.join(command)}"))


def refused(folder: Path, room: Path, *words: str) -> str:
    """What ``gssr`` says on a terminal, in this folder, where that is wrong usage."""
    line = ["script", "-qec", shlex.join([*GSSR, *words]), os.devnull]
    variables = os.environ | environ(room)
    done = subprocess.run(line, cwd=folder, env=variables, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
    assert done.returncode == 2
    return done.stdout.decode()


def test_the_gpus_are_shown_kept_and_gone(room: Path, tmp_path: Path, tmux: Tmux) -> None:
    tmux.start(command=in_folder(tmp_path, *TOP), **environ(room))
    text = tmux.shows(r"(?s)\u25cf live .*GPU saturation.*:0 .*:5 ")
    assert "6 GPUs" in text and "score" in text and len(os.listdir(room)) == 1
    for name, said in (
        ("a.txt", r"the name must end in \.sql"),
        ("a.sql", r"(?s)written:.*/"),  # a long name is on the next line
        ("a.sql", r"a\.sql: File exists"),
    ):
        tmux.press("K")
        tmux.shows(r"gssr_\d+T\d+\.sql")
        tmux.press("C-u")
        tmux.shows(r"(?s)\A(?!.*gssr_\d).*a name that ends in \.sql")
        tmux.press(*name)
        tmux.shows(rf"[^_]{name}\b")
        tmux.press("Enter")
        tmux.shows(said)
    tmux.press("q")
    until_ended(tmux.pid)
    assert not os.listdir(room)
    (run,) = open_recording(tmp_path / "a.sql").runs
    assert (run.state, run.damage, run.recounted) == ("completed", None, None) and run.n_rows > 6
    assert os.stat(tmp_path / "a.sql").st_mode & 0o777 == 0o600
    assert sorted(os.listdir(tmp_path)) == ["a.sql", "room"]


@pytest.mark.parametrize("how", (signal.SIGTERM, signal.SIGHUP, signal.SIGKILL), ids=("term", "hangup", "kill"))
def test_however_it_ends_nothing_is_left(room: Path, tmux: Tmux, how: signal.Signals) -> None:
    tmux.start(command=TOP, **environ(room))
    tmux.shows(r"every GPU over time")
    os.kill(tmux.pid, how)
    until_ended(tmux.pid)
    until(lambda: not os.listdir(room), "its sampler to find out by itself")


def test_options_and_settings_say_how_it_begins(room: Path, tmux: Tmux) -> None:
    settings(room, 'screen = "time"\nmetric = "power"\ntheme = "ansi-light"\n')
    tmux.start(command=TOP, **environ(room))
    tmux.shows(r"every GPU over time.*Power")
    tmux.press("q")
    until_ended(tmux.pid)


def test_options_win_over_settings(room: Path, tmux: Tmux) -> None:
    settings(room, 'screen = "gpus"\nmetric = "power"\n')
    words = ("--screen", "time", "--metric", "dram", "--gpus", "*:[0-2],5", "--window", "1m")
    tmux.start(*words, command=TOP, **environ(room))
    tmux.shows(r"(?s)looking at \*:\[0-2\], 5.*4 GPUs over time.*DRAM active")
    tmux.press("escape")  # alone: with what follows at once it would be Alt
    tmux.shows(r"(?s)\A(?!.*looking at)")
    tmux.press("2")
    tmux.shows(r"(?s)GPU. *now.*:0 .*:5 ")


def test_settings_that_are_wrong_are_said_and_nothing_else(room: Path, tmux: Tmux) -> None:
    settings(room, 'screen = "mop"\n')
    tmux.start("--gpus", "nid7", command=TOP, size=(160, 24), **environ(room))
    tmux.shows(r"config\.toml: is not used: no screen 'mop'; there are|--gpus: no GPU 'nid7' in this run")
    tmux.shows(ON["job"])


def test_a_node_without_a_gpu_is_left_with_a_sentence(room: Path, tmux: Tmux) -> None:
    tmux.start(command=(*GSSR, "top", "--backend", "gpm"), **environ(room))
    tmux.shows(r"(?s)gssr: no GPU is sampled: .*CPU .* busy")
    until_ended(tmux.pid)
    assert not os.listdir(room)


def test_a_recording_begins_as_it_is_told(plants: dict[str, str], room: Path, tmux: Tmux) -> None:
    tmux.start(plants["before"], "--screen", "balance", "--metric", "tensor_active", "--gpus", "0", **environ(room))
    tmux.shows(r"(?s)what evening out would give.*Tensor pipe active")
    tmux.press("q")
    until_ended(tmux.pid)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--gpus", "nid7"), "no GPU 'nid7'"),
        (("--screen", "Job1"), "did you mean job"),
        (("--metric", "bsy"), "no metric"),
    ],
)
def test_a_wrong_beginning_is_wrong_usage(
    plants: dict[str, str], room: Path, tmp_path: Path, words: tuple[str, ...], why: str, requires: Callable[..., None]
) -> None:
    requires("script", package="bsdutils")
    said = refused(tmp_path, room, "tui", plants["before"], *words)
    assert why in said and said.count("gssr: ") == 1 and said.count("\n") == 1


def test_without_a_recording_top_is_named(room: Path, tmp_path: Path, requires: Callable[..., None]) -> None:
    requires("script", package="bsdutils")
    assert "gssr top" in refused(tmp_path, room, "tui")
