"""A real Prometheus, asked for what promtool has put into its files; and servers that mean no good."""

import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Generator
from datetime import datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import numpy as np
import pytest
from series import by_gpu

from gssr.foreign import prometheus_server
from gssr.foreign.prometheus_server import read_server, token_of
from gssr.foreign.series import ForeignError, ImportHints
from tests.prometheus import make_blocks, running

BEGIN, EACH, N = 1_700_000_000.0, 15.0, 120
END = BEGIN + EACH * (N - 1)


def value(gpu: int, k: int) -> float:
    return round((k % 40) / 50 + gpu / 10, 6)


def history() -> str:
    """Two nodes, each with two GPUs, as dcgm-exporter tells of them."""
    lines = []
    for name, factor in (("DCGM_FI_PROF_SM_ACTIVE", 1.0), ("DCGM_FI_DEV_GPU_UTIL", 100.0)):
        lines.append(f"# TYPE {name} gauge")
        for node in ("n1", "n2"):
            for gpu in (0, 1):
                about = f'gpu="{gpu}",UUID="GPU-{node}{gpu}",Hostname="{node}",instance="{node}:9400"'
                lines += [f"{name}{{{about}}} {value(gpu, k) * factor} {BEGIN + EACH * k}" for k in range(N)]
    return "\n".join([*lines, "# EOF\n"])


@pytest.fixture(scope="module")
def server(requires: Callable[..., None], tmp_path_factory: pytest.TempPathFactory) -> Generator[str, None, None]:
    """The address of a Prometheus that holds ``history``."""
    requires("prometheus", "promtool", package="prometheus")
    folder = tmp_path_factory.mktemp("prometheus")
    (folder / "history").write_text(history())
    make_blocks(folder, "history")
    with running(folder) as address:
        yield address


@pytest.fixture(autouse=True)
def proxy_that_is_not_to_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a compute node has one for the internet; nobody listens at the discard port."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)


def test_a_proxy_is_used_by_who_says_so_alone(server: str) -> None:
    assert read_server(server, BEGIN, END, ImportHints(), None).pieces
    with pytest.raises(ForeignError, match="Connection refused"):
        read_server(server, BEGIN, END, ImportHints(), None, through_proxy=True)


def test_a_server_gives_all_gpus_as_it_has_sampled_them(server: str) -> None:
    series = read_server(server.replace("//", "//me:secret@"), BEGIN, END, ImportHints(), None)
    own = {(each.gpu.node, each.gpu.device_index): each for each in by_gpu(series)}
    assert own.keys() == {("n1", 0), ("n1", 1), ("n2", 0), ("n2", 1)}
    for (_, gpu), each in own.items():
        np.testing.assert_allclose(each.time, BEGIN + EACH * np.arange(N))
        expected = [value(gpu, k) for k in range(N)]
        np.testing.assert_allclose(each.values["sm_active"], expected)
        np.testing.assert_allclose(each.values["gpu_utilization"], expected)
    assert series.label == server and "secret" not in repr(series)


def test_the_page_shows_how_to_get_from_a_jobs_number_to_a_page(server: str, tmp_path: Path) -> None:
    """The scripts of docs/import.md as they stand there, but for the server's address. Stand-ins for Slurm's commands print
    what these do: the times are local ones, and the nodes a list that is to be expanded."""
    root = Path(__file__).parents[2]
    section = (root / "docs" / "import.md").read_text(encoding="utf-8").partition("### The user did not record")[2]
    scripts = re.findall(r"```bash\n(.*?)```", section.partition("\n## ")[0], re.DOTALL)
    assert len(scripts) == 2
    start, end = (f"{datetime.fromtimestamp(time):%Y-%m-%dT%H:%M:%S}" for time in (BEGIN, END))
    commands = {
        "sacct": f'[[ "$*" == "-X -n -P -j 77 -o Start,End,NodeList" ]] && echo "{start}|{end}|n[1-2]"',
        "scontrol": '[[ "$*" == "show hostnames n[1-2]" ]] && printf "%s\\n" n1 n2',
        "gssr": f'exec {sys.executable} -m gssr "$@"',
    }
    for name, script in commands.items():
        (tmp_path / name).write_text(f"#!/bin/bash\n{script}\n")
        (tmp_path / name).chmod(0o755)
    done = subprocess.run(
        ["bash", "-ec", "".join(scripts).replace("http://prometheus:9090", server)],
        cwd=tmp_path, env=dict(os.environ, PATH=f"{tmp_path}:{os.environ['PATH']}", PYTHONPATH=str(root)),
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(each.name for each in tmp_path.glob("*.sql")) == ["job77.n1.sql", "job77.n2.sql", "job77.sql"]
    assert done.stdout.count("\n2 GPUs on 1 node, ") == 2 and done.stdout.count("\n4 GPUs on 2 nodes, ") == 1


def test_more_points_than_one_answer_holds_come_by_several(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    ask = prometheus_server._Server.ask
    monkeypatch.setattr(prometheus_server, "_METRICS", "DCGM_FI_PROF_SM_ACTIVE")
    monkeypatch.setattr(
        prometheus_server._Server, "ask", lambda self, what, **more: asked.append(what) or ask(self, what, **more)
    )
    series = read_server(server, BEGIN, BEGIN + 1150, ImportHints(host="n2", interval=0.1), None)
    own = by_gpu(series)
    assert [(each.gpu.node, len(each.time)) for each in own] == [("n2", 11501)] * 2
    np.testing.assert_allclose(own[1].time, BEGIN + 0.1 * np.arange(11501), rtol=0, atol=1e-3)
    np.testing.assert_allclose(own[1].values["sm_active"][::150], [value(1, k) for k in range(77)])
    assert asked.count("query_range") == 2


def test_what_a_server_does_not_hold_is_one_sentence(server: str) -> None:
    for told, begin in ((ImportHints(host="n.*"), BEGIN), (ImportHints(), BEGIN - 1e8)):
        with pytest.raises(ForeignError, match=rf"^{server}: holds no metric of a GPU"):
            read_server(server, begin, begin + 60, told, None)
    with pytest.raises(ForeignError, match=rf"^{server}/nowhere: refuses with 404 "):
        read_server(server + "/nowhere/", BEGIN, END, ImportHints(), None)


class Answers(BaseHTTPRequestHandler):
    """Does with each request as ``how`` says."""

    how: Callable[["Answers"], None]

    def do_GET(self) -> None:
        Answers.how(self)

    def say(self, code: int, text: str = "", **headers: str) -> None:
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def answers() -> Generator[Callable[[Callable[[Answers], None]], str], None, None]:
    """``answers(how)`` is the address of a server that answers so."""
    server = HTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()

    def start(how: Callable[[Answers], None]) -> str:
        Answers.how = staticmethod(how)
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize(
    ("how", "sentence"),
    [
        (lambda its: its.say(302, Location="http://localhost:1/api/v1/series"), "redirects to another host, localhost:1"),
        (lambda its: its.say(302, Location="file:///etc/passwd"), "is not allowed"),
        (lambda its: its.say(302, Location=its.path), "refuses with 302"),
        (lambda its: its.say(401, "no"), "refuses with 401 Unauthorized: --token-file FILE"),
        (lambda its: its.say(422, '{"error": "too\\nmuch"}'), "refuses with 422 too much"),
        (lambda its: its.say(200, "<html>"), "is cut off, or no sound JSON"),
        (lambda its: its.say(200, '{"status": "success", "data": 7}'), "is no Prometheus"),
        (lambda its: its.say(200, '"' + "x" * 3000), "answers with more than 0 MiB"),
        (lambda its: its.connection.close(), "can't be asked"),
    ],
)  # fmt: skip
def test_a_server_that_means_no_good_is_one_sentence(
    answers: Callable[..., str], monkeypatch: pytest.MonkeyPatch, how: Callable[[Answers], None], sentence: str
) -> None:
    monkeypatch.setattr(prometheus_server, "_MOST_BYTES", 2000)
    url = answers(how)
    with pytest.raises(ForeignError, match=rf"^{url}: [^\n]+$") as caught:
        read_server(url.replace("//", "//me:secret@"), BEGIN, END, ImportHints(), None)
    assert sentence in str(caught.value) and "secret" not in str(caught.value)


def test_a_token_is_sent_to_the_server_alone(answers: Callable[..., str], tmp_path: Path) -> None:
    seen = []

    def how(its: Answers) -> None:
        seen.append(its.headers["Authorization"])
        its.say(307, Location="/there" + its.path) if not its.path.startswith("/there") else its.say(200, "{}")

    (tmp_path / "token").write_text("abc.def\n")
    (tmp_path / "none").write_text("two words")
    token = token_of(str(tmp_path / "token"), {"GSSR_PROMETHEUS_TOKEN": "other"})
    for own in (token, token_of(None, {"GSSR_PROMETHEUS_TOKEN": "other"}), token_of(None, {})):
        with pytest.raises(ForeignError, match="is no Prometheus"):
            read_server(answers(how).replace("//", "//me:p%40ss@"), BEGIN, END, ImportHints(), own)
    assert seen == [word for word in ("Bearer abc.def", "Bearer other", "Basic bWU6cEBzcw==") for _ in range(2)]
    for path in ("none", "missing"):
        with pytest.raises(ForeignError, match=rf"^--token-file \S+{path}: "):
            token_of(str(tmp_path / path), {})


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "ftp://h/", "h:9090", "", "http://", "http://[::1", "http://h:x", "http://h/?q=1"]
)
def test_only_addresses_of_servers_are_asked(url: str) -> None:
    with pytest.raises(ForeignError, match=r"^--prometheus: is "):
        read_server(url, BEGIN, END, ImportHints(), None)
