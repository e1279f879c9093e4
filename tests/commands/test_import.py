"""gssr import: with stand-ins for nsys, what it leaves and what it says."""

import os
import signal
import stat
import subprocess
import sys
import time

import pytest

from gssr import cli

STANDIN = """#!{python}
import os, sys, time
out = next(word.partition("=")[2] for word in sys.argv if word.startswith("--output="))
assert sys.argv[1] == "export" and os.path.isabs(sys.argv[-1])
{body}
"""
WRITES = "import sqlite3; c = sqlite3.connect(out); c.execute('CREATE TABLE StringIds (id, value)'); c.commit()"


@pytest.fixture
def nsys(tmp_path, monkeypatch):
    """Puts a stand-in on PATH, and a report beside it; all else is in the current folder."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    (tmp_path / "work" / "a.nsys-rep").write_bytes(b"a report")

    def put(body: str) -> None:
        program = tmp_path / "bin" / "nsys"
        program.write_text(STANDIN.format(python=sys.executable, body=body))
        program.chmod(0o755)

    return put


def gssr(*words: str) -> int:
    return cli.main(["--debug", "import", *words])


def test_the_file_is_beside_the_report_and_as_private(nsys, capsys):
    nsys(WRITES)
    os.chmod("a.nsys-rep", 0o600)
    assert gssr("a.nsys-rep") == 0
    assert capsys.readouterr().out == "a.sqlite: written; gssr analyze reads it\n"
    assert sorted(os.listdir()) == ["a.nsys-rep", "a.sqlite"]
    assert stat.S_IMODE(os.stat("a.sqlite").st_mode) == 0o600
    assert gssr("a.nsys-rep", "-o", "b.sqlite") == 0 and os.path.isfile("b.sqlite")


def test_what_is_there_stays_unless_it_is_to_be_replaced(nsys, capsys):
    nsys(WRITES)
    with open("a.sqlite", "w") as stream:
        stream.write("mine")
    assert gssr("a.nsys-rep") == 1
    assert capsys.readouterr().err == "gssr: a.sqlite: already exists: gssr analyze reads it, or -f replaces it\n"
    assert os.path.getsize("a.sqlite") == 4
    assert gssr("a.nsys-rep", "-f") == 0 and os.path.getsize("a.sqlite") > 4
    assert gssr("a.nsys-rep", "-f", "-o", "a.nsys-rep") == 2


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (r"print('10 %\n\x1b[31mFailed\x1b[0m: too old\n\n'); sys.exit(3)", "failed: ?[31mFailed?[0m: too old"),
        ("sys.exit(1)", "failed: it said nothing"),
        ("pass", "has made no file: it said nothing"),
        ("open(out, 'w').write('no database')", "has made no file: it said nothing"),
        ("import signal; os.kill(os.getpid(), signal.SIGKILL)", "was ended by signal 9: it said nothing"),
    ],
)  # fmt: skip
def test_what_goes_wrong_is_one_line_and_nothing_is_left(nsys, capsys, body, said):
    nsys(body)
    assert gssr("a.nsys-rep") == 1
    assert capsys.readouterr().err == f"gssr: a.nsys-rep: nsys export {said}\n"
    assert os.listdir() == ["a.nsys-rep"]


def test_without_nsys_and_without_a_report_a_sentence_says_so(nsys, capsys):
    assert gssr("a.nsys-rep") == 1
    assert "is not on PATH" in capsys.readouterr().err
    nsys(WRITES)
    assert gssr("none.nsys-rep") == 1 and "none.nsys-rep: no such file" in capsys.readouterr().err
    assert gssr(".") == 1 and ".: holds a.nsys-rep, which is a report of Nsight Systems" in capsys.readouterr().err
    assert gssr("a.nsys-rep") == 0
    assert gssr("a.sqlite") == 1 and "is an SQLite database already" in capsys.readouterr().err
    assert gssr("a.nsys-rep", "-o", "no/such/b.sqlite") == 1
    assert capsys.readouterr().err == "gssr: no/such/b.sqlite: can't be written: No such file or directory\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_it_leaves_neither_a_file_nor_a_process(nsys, tmp_path, number):
    nsys("open(out, 'w').write('half'); open('../begun', 'w').write(str(os.getpid())); time.sleep(600)")
    command = [sys.executable, "-m", "gssr", "import", "a.nsys-rep"]
    environ = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, env=environ, stderr=subprocess.PIPE) as process:
        begun = tmp_path / "begun"
        while not (begun.exists() and begun.read_text()):
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(number)
        assert process.wait(60) == 130 and process.stderr is not None and process.stderr.read() == b""
    assert os.listdir() == ["a.nsys-rep"]
    with pytest.raises(ProcessLookupError):
        os.kill(int(begun.read_text()), 0)


def test_what_is_asked_of_a_server_needs_one(capsys):
    for option in (["--from", "-2h"], ["--to", "-1h"], ["--token-file", "token"], ["--proxy"]):
        assert gssr("a.csv", *option) == 2
        assert capsys.readouterr().err == f"gssr: {option[0]}: goes with --prometheus\n"
