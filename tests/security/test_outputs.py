"""What is made of a recording is as private as the recording, and goes through no name that somebody else has taken."""

import contextlib
import os
import sqlite3
import stat
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from textual.pilot import Pilot
from two_users import ATTACKER, VICTIM, as_user

from gssr.backends.synthetic.bulk import generate
from gssr.cli import main
from gssr.store.output_file import PRIVATE, Access, access_of, output_file, output_folder
from gssr.tui.export import export, picture_of
from tests.looking import live_screen, work

pytestmark = pytest.mark.xdist_group("two users")


@pytest.fixture(scope="session")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recorded") / "run.sql"
    generate(str(path), "train", 2, 1 / 60, 0.5)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    return path


@pytest.fixture
def readable(recording: Path) -> Iterator[Path]:
    """The recording, while others may read it."""
    recording.chmod(0o644)
    yield recording
    recording.chmod(0o600)


@contextlib.contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def take_away(recordings: Sequence[str], folder: str) -> int:
    """As ``x`` of the live screen does."""
    app = live_screen(recordings[0])

    async def steps(_: Pilot[int]) -> None:
        picture = picture_of(app.export_screenshot())
        for ending in ("txt", "png", "svg", "csv"):
            export(picture, app.results[0], f"{folder}/screen.{ending}", access_of(recordings))

    work(app, steps, (80, 24))
    return 0


MAKERS: dict[str, Callable[[Sequence[str], str], int]] = {
    "HTML": lambda names, folder: main(["analyze", "-ns", "--report", f"{folder}/x.html", *names]),
    "PDF": lambda names, folder: main(["analyze", "-ns", "--report", f"{folder}/x.pdf", *names]),
    "PNG": lambda names, folder: main(["analyze", "-ns", "--png", f"{folder}/pictures", *names]),
    "Parquet": lambda names, folder: main(["export", "-o", f"{folder}/tables", *names]),
    "CSV": lambda names, folder: main(["export", "--format", "csv", "-o", f"{folder}/tables", *names]),
    "OpenMetrics": lambda names, folder: main(["export", "--format", "openmetrics", "-o", f"{folder}/x.txt", *names]),
    "Prometheus": lambda names, folder: main(["export", "--format", "prometheus", "-o", f"{folder}/x.prom", *names]),
    "Perfetto": lambda names, folder: main(["export", "--format", "perfetto", "-o", f"{folder}/x.json.gz", *names]),
    "screen": take_away,
}


@pytest.fixture(scope="session")
def made(recording: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """What each of them makes, under a umask that forbids nothing. All modules are imported by then: another user may not
    be able to read them."""
    folders = {name: tmp_path_factory.mktemp(name) for name in MAKERS}
    with umask(0):
        for name, folder in folders.items():
            assert MAKERS[name]([str(recording)], str(folder)) == 0
    return folders


def modes(folder: Path) -> dict[str, int]:
    """Of everything in the folder, by name."""
    return {str(path): stat.S_IMODE(path.stat().st_mode) for path in folder.rglob("*")}


@pytest.mark.parametrize("maker", MAKERS)
def test_what_is_made_of_a_recording_is_as_private_as_it(maker: str, made: dict[str, Path]) -> None:
    found = modes(made[maker])
    assert found
    for name, mode in found.items():
        assert mode == (0o700 if os.path.isdir(name) else 0o600), name


@pytest.mark.parametrize("maker", ["HTML", "Parquet", "Perfetto"])
def test_who_may_read_a_recording_may_read_what_is_made_of_it(maker: str, readable: Path, tmp_path: Path) -> None:
    with umask(0o027):
        assert MAKERS[maker]([str(readable)], str(tmp_path)) == 0
    for name, mode in modes(tmp_path).items():
        assert mode == (0o750 if os.path.isdir(name) else 0o640), name


def test_of_several_recordings_the_most_private_counts(readable: Path, tmp_path: Path) -> None:
    private = tmp_path / "private.sql"
    private.write_bytes(readable.read_bytes())
    private.chmod(0o600)
    assert main(["analyze", "-ns", "--report", str(tmp_path / "x.html"), str(readable), str(private)]) == 0
    assert stat.S_IMODE((tmp_path / "x.html").stat().st_mode) == 0o600
    group = readable.stat().st_gid
    assert access_of([str(readable)]) == Access(0o644, group)
    private.chmod(0o640)
    assert access_of([str(readable), str(private)]) == Access(0o640, group)
    assert access_of([str(readable), str(tmp_path / "missing.sql")]) == access_of([]) == PRIVATE


def test_a_rank_whose_file_is_private_makes_all_of_it_private(readable: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run.sql.d"
    folder.mkdir()
    for rank, mode in enumerate((0o644, 0o600)):
        (folder / f"n.{rank}.r.sql").write_bytes(readable.read_bytes())
        (folder / f"n.{rank}.r.sql").chmod(mode)
    assert access_of([str(tmp_path / "run.sql")]).mode == access_of([str(folder)]).mode == 0o600


def test_what_a_group_may_read_no_other_group_may(tmp_path: Path) -> None:
    own = tmp_path.stat().st_gid
    with umask(0):
        for group, mode in ((own, 0o640), (own + 1, 0o600), (None, 0o600)):
            with output_file(str(tmp_path / f"{group}"), Access(0o640, group)):
                pass
            output_folder(str(tmp_path / f"{group}.d/below"), Access(0o640, group))
            found = [(tmp_path / f"{group}{rest}").stat().st_mode & 0o777 for rest in ("", ".d", ".d/below")]
            assert found == [mode, mode | 0o100 | (mode & 0o40) >> 2, mode | 0o100 | (mode & 0o40) >> 2]
        with output_file(str(tmp_path / "x"), Access(0o664, own + 1)):
            pass
    assert (tmp_path / "x").stat().st_mode & 0o777 == 0o644  # as everybody


def test_a_folder_that_another_process_makes_meanwhile_is_as_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.mkdir
    monkeypatch.setattr(os, "mkdir", lambda path, mode: (real(path, mode), real(path, mode)))
    output_folder(str(tmp_path / "made"), PRIVATE)
    assert stat.S_IMODE((tmp_path / "made").stat().st_mode) == 0o700
    monkeypatch.setattr(os, "mkdir", lambda path, mode: (Path(path).write_text("a file"), real(path, mode)))
    with pytest.raises(FileExistsError):
        output_folder(str(tmp_path / "file"), PRIVATE)


def test_a_file_is_there_as_a_whole_or_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "x.html"
    path.write_text("before")
    path.chmod(0o644)
    with pytest.raises(ZeroDivisionError), output_file(str(path), PRIVATE) as file:
        file.write(b"half")
        raise ZeroDivisionError
    assert path.read_text() == "before" and os.listdir(tmp_path) == ["x.html"]
    with output_file(str(path), PRIVATE) as file:
        file.write(b"after")
        file.flush()
        assert path.read_text() == "before"
    assert path.read_text() == "after" and path.stat().st_mode & 0o777 == 0o600
    assert os.listdir(tmp_path) == ["x.html"]


def test_errors_name_what_was_asked_for(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for name, kind in (("missing/x", FileNotFoundError), ("folder", IsADirectoryError), ("ring", OSError)):
        (tmp_path / "ring").unlink(missing_ok=True)
        (tmp_path / "ring").symlink_to("ring")
        with pytest.raises(kind) as caught, output_file(str(tmp_path / name), PRIVATE):
            pass
        assert caught.value.filename == str(tmp_path / name) and caught.value.strerror
    with pytest.raises(FileExistsError), output_file(str(tmp_path / "ring"), PRIVATE, new=True):
        pass
    with pytest.raises(OSError), output_file("/dev/full", PRIVATE) as file:
        file.write(b"x")


def test_ones_own_links_are_followed_and_stay(tmp_path: Path) -> None:
    (tmp_path / "web").mkdir()
    (tmp_path / "x").symlink_to("y")
    (tmp_path / "y").symlink_to("web/index.html")
    for text in (b"one", b"two"):
        with output_file(str(tmp_path / "x"), PRIVATE) as file:
            file.write(text)
        assert (tmp_path / "web" / "index.html").read_bytes() == text
    assert (tmp_path / "x").is_symlink() and (tmp_path / "y").is_symlink()
    assert os.listdir(tmp_path / "web") == ["index.html"]


def test_pipes_and_descriptors_are_written_to_as_they_are(tmp_path: Path, recording: Path) -> None:
    pipe, read = tmp_path / "x.pdf", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    assert main(["analyze", "-ns", "--report", str(pipe), str(recording)]) == 0
    reader.join(timeout=60)
    assert read[0].startswith(b"%PDF") and read[0].rstrip().endswith(b"%%EOF") and pipe.is_fifo()
    with open(tmp_path / "kept", "w+b") as kept:
        with output_file(f"/dev/fd/{kept.fileno()}", PRIVATE) as file:
            file.write(b"here")
        assert kept.read() == b"here" and sorted(os.listdir(tmp_path)) == ["kept", "x.pdf"]
    readable, writable = os.pipe()
    (tmp_path / "link.html").symlink_to(f"/proc/self/fd/{writable}")
    with output_file(str(tmp_path / "link.html"), PRIVATE) as file:
        file.write(b"there")
    assert os.read(readable, 9) == b"there" and (tmp_path / "link.html").is_symlink()
    os.close(readable)
    os.close(writable)


NAMES = {
    "HTML": "x.html",
    "PDF": "x.pdf",
    "PNG": "pictures",
    "Parquet": "tables",
    "CSV": "tables",
    "screen": "screen.txt",
}


@pytest.mark.parametrize(
    ("maker", "kind"),
    [
        *((maker, "link") for maker in NAMES),
        *((maker, kind) for maker in ("HTML", "CSV", "screen") for kind in ("hard link", "own", "pipe", "folder")),
    ],
)
def test_no_output_goes_through_what_another_user_has_planted(
    maker: str, kind: str, recording: Path, made: dict[str, Path], shared: Path
) -> None:
    """Whatever the kernel's own protection of links is set to."""
    assert made
    own = shared / "victims.sql"
    own.write_bytes(recording.read_bytes())
    os.chown(own, VICTIM, VICTIM)
    own.chmod(0o600)
    name = shared / NAMES[maker]
    precious = shared / "precious"

    def keep() -> None:
        precious.write_text("precious")
        precious.chmod(0o666)  # so that the kernel lets another user make a second name for it
        (shared / "home").mkdir(0o777)

    def plant() -> None:
        if kind == "link":
            name.symlink_to(shared / "home" if NAMES[maker] in ("pictures", "tables") else precious)
        elif kind == "hard link":
            os.link(precious, name)
        elif kind == "pipe":
            os.mkfifo(name, 0o666)
            name.chmod(0o666)
        elif kind == "folder":
            name.mkdir(0o777)
        else:
            name.touch()
            name.chmod(0o666)

    assert as_user(VICTIM, keep) is None
    assert as_user(ATTACKER, plant) is None
    os.chmod(shared, 0o777)  # not even that of /tmp
    before = sorted(os.listdir(shared))
    status = name.lstat()
    code = as_user(VICTIM, lambda: MAKERS[maker]([str(own)], str(shared)))
    if maker == "screen":  # which only makes new files
        assert code.startswith(("FileExistsError", "IsADirectoryError"))
    else:
        assert code in (1, 2)
    assert precious.read_text() == "precious" and os.listdir(shared / "home") == []
    assert sorted(os.listdir(shared)) == before
    assert (name.lstat().st_ino, name.lstat().st_size) == (status.st_ino, status.st_size)


def test_a_synthetic_recording_replaces_nothing_that_another_user_has_planted(shared: Path) -> None:
    """Nor is what such a link leads to deleted."""
    from gssr.backends.synthetic.__main__ import main as synthetic

    precious = shared / "precious.sql"

    def make(name: Path, *words: str) -> int:
        return synthetic(["idle", "--gpus", "1", "--hours", "0.001", "-o", str(name), *words])

    assert as_user(VICTIM, lambda: make(precious)) == 0
    before = precious.read_bytes()
    assert as_user(ATTACKER, lambda: (shared / "run.sql").symlink_to(precious)) is None
    assert as_user(VICTIM, lambda: make(shared / "run.sql", "-f")) == 1
    assert precious.read_bytes() == before and stat.S_IMODE(precious.stat().st_mode) == 0o600


def test_a_merge_and_a_repair_write_to_nothing_that_another_user_has_planted(recording: Path, shared: Path) -> None:
    folder, precious = shared / "run.sql.d", shared / "precious.sql"

    def keep() -> None:
        folder.mkdir(0o700)
        for path in (folder / "node0000.0.r.sql", precious):
            path.write_bytes(b"")

    assert as_user(VICTIM, keep) is None
    for path in (folder / "node0000.0.r.sql", precious):
        path.write_bytes(recording.read_bytes())
    with contextlib.closing(sqlite3.connect(precious)) as connection, connection:
        connection.execute("DELETE FROM rollup")  # so that there is something to repair
    before = precious.read_bytes()
    assert as_user(ATTACKER, lambda: (shared / "run.sql").symlink_to(precious)) is None
    assert as_user(VICTIM, lambda: main(["merge", str(shared / "run.sql")])) == 1
    assert precious.read_bytes() == before and os.listdir(folder) == ["node0000.0.r.sql"]
    (folder / "node0000.0.r.sql").unlink()
    folder.rmdir()
    assert as_user(VICTIM, lambda: main(["merge", str(shared / "run.sql")])) == 1
    assert precious.read_bytes() == before
