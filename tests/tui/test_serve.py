"""The live screen in a browser: who is let in, what a page can do, and what is left when it ends."""

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gssr.cli import main
from tests.fakes.growing import Growing
from tests.waiting import until, until_ended

pytest.importorskip("textual_serve")
import aiohttp
from aiohttp.test_utils import TestServer

from gssr.tui.serve import ScreenServer

PATIENCE = 30.0


class Served:
    """``gssr tui NAME --serve`` as a process of its own."""

    def __init__(self, folder: Path, name: str) -> None:
        words = [sys.executable, "-m", "gssr", "tui", name, "--serve"]
        self.process = subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().strip()
        self.root = self.address.rsplit("/", 2)[0]

    def children(self) -> set[int]:
        path = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return set(map(int, path.read_text().split()))

    @asynccontextmanager
    async def page(self) -> AsyncIterator["Page"]:
        """What the page's script does, in 100 columns and 30 rows."""
        async with aiohttp.ClientSession() as client:
            address = f"{self.address}ws?width=100&height=30"
            async with client.ws_connect(address, headers={"Origin": self.root}) as socket:
                yield Page(socket)


class Page:
    """The browser's end of a page."""

    def __init__(self, socket: Any) -> None:
        self.socket, self.drawn = socket, ""

    async def shows(self, text: str) -> None:
        """Take what is drawn until this is among it."""
        async with asyncio.timeout(PATIENCE):
            while text not in re.sub("\x1b\\[[0-9;?]*[a-zA-Z]", "", self.drawn):
                message = await self.socket.receive()
                assert message.type is aiohttp.WSMsgType.BINARY, message
                self.drawn += message.data.decode()

    async def draws_anew(self, width: int, text: str) -> str:
        """Have it drawn in so many columns, until this is among it; what is drawn."""
        self.drawn = ""
        await self.socket.send_json(["resize", {"width": width, "height": 30}])
        await self.shows(text)
        return self.drawn

    async def ends(self) -> int:
        """Wait until the server closes it; the code with which it does."""
        async with asyncio.timeout(PATIENCE):
            async for _ in self.socket:
                pass
        return int(self.socket.close_code)

    async def press(self, keys: str) -> None:
        await self.socket.send_json(["stdin", keys])


def record(path: Path) -> None:
    """Write a run of two GPUs that has ended."""
    run = Growing(path, n_gpus=2, whole=True)
    run.grow(40)
    run.end()


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[[str], Served]]:
    """Serve a recording that has this name, alone in its folder."""
    started: list[Served] = []

    def start(name: str = "run.sql") -> Served:
        record(tmp_path / name)
        started.append(Served(tmp_path, os.path.join(".", name)))
        return started[-1]

    yield start
    for served in started:
        served.process.kill()
        served.process.wait()


def test_nobody_sees_anything_without_the_token_or_from_another_page() -> None:
    async def ask() -> None:
        server = ScreenServer(["false"], ["127.0.0.1", "localhost"], ["Hub.example"])
        async with TestServer(server.application()) as test, aiohttp.ClientSession() as client:
            root, own = f"http://127.0.0.1:{test.port}", f"/{server.token}/"

            async def answer(path: str, **headers: str) -> int:
                async with client.get(root + path, headers=headers) as response:
                    text = await response.text()
                    assert response.status == 200 or text in ("403: Forbidden", "404: Not Found")
                    return response.status

            for path in ("", "page.js", "static/js/textual.js", "static/css/xterm.css"):
                assert await answer(own + path) == 200
                for wrong in ("", server.token[:-1], server.token + "x", "x" * len(server.token), "%ff"):
                    assert await answer(f"/{wrong}/{path}".replace("//", "/")) == 403
                assert await answer(own + path, Host="evil.example") == 403
                assert await answer(own + path, Host="evil.example:[") == 403
                assert await answer(own + path, Host=f"localhost:{test.port + 1}") == 200  # through ssh -L
            assert await answer(own + "static/") == 403
            assert await answer(own + "static/%2e%2e/server.py") == 404
            assert await answer(own + "download/x") == 404

            async def opens(token: str = server.token, **headers: str) -> bool:
                try:
                    async with client.ws_connect(f"{root}/{token}/ws", headers=headers):
                        return True
                except aiohttp.WSServerHandshakeError as error:
                    assert error.status == 403
                    return False

            assert await opens(Origin=root)
            assert not await opens("wrong", Origin=root)
            assert not await opens()
            for origin in ("null", "http://evil.example", f"http://127.0.0.1:{test.port + 1}", "http://localhost"):
                assert not await opens(Origin=origin)
            assert not await opens(Host="evil.example", Origin="http://evil.example")
            assert await opens(Host="hub.example", Origin="https://hub.example")
            assert await opens(Origin="https://hub.example")

    asyncio.run(ask())


def test_the_page_loads_nothing_from_elsewhere_and_says_nothing_of_the_command(serve: Callable[[], Served]) -> None:
    async def look(served: Served) -> None:
        async with aiohttp.ClientSession() as client, client.get(served.address) as response:
            text = await response.text()
            assert "connect-src 'self'" in response.headers["Content-Security-Policy"]
            assert response.headers["Referrer-Policy"] == "no-referrer"
        assert "://" not in text and "run.sql" not in text and "python" not in text

    asyncio.run(look(serve()))


@pytest.mark.parametrize("name", ["a; touch x.sql", "$(touch x).sql", "-f.sql", "'\"\n&.sql"])
def test_a_page_shows_the_screen_and_writes_nothing(tmp_path: Path, serve: Callable[[str], Served], name: str) -> None:
    async def look(served: Served) -> None:
        async with served.page() as page:
            await page.shows("where the GPU time went")
            await page.press("x")
            assert "save what is seen" not in await page.draws_anew(110, "where the GPU time went")
            await page.press(":")
            await page.draws_anew(115, "Search for commands")
            await page.press("screenshot")
            await page.draws_anew(120, "No matches found")
            await page.socket.send_str("{")  # nothing that the page's script says
            await page.socket.send_json(["resize", {"width": "many", "height": 1 << 40}])
            await page.draws_anew(130, "where the GPU time went")

    asyncio.run(look(serve(name)))
    assert os.listdir(tmp_path) == [name]


def test_a_page_that_closes_ends_its_process_and_ctrl_c_ends_them_all(serve: Callable[[], Served]) -> None:
    async def look(served: Served) -> None:
        async with served.page() as first:
            await first.shows("score")
            (process,) = served.children()
            async with served.page() as second:
                await second.shows("score")
                assert len(served.children()) == 2
            until(lambda: served.children() == {process})
            await first.press("q")
            await first.ends()
        until_ended(process)
        async with served.page() as last:
            await last.shows("score")
            (process,) = served.children()
            served.process.send_signal(signal.SIGINT)
            assert await last.ends() == aiohttp.WSCloseCode.GOING_AWAY
            assert served.process.wait(PATIENCE) == 0
            until_ended(process)

    asyncio.run(look(serve()))


def test_a_process_ends_whose_server_was_killed(serve: Callable[[], Served]) -> None:
    async def look(served: Served) -> None:
        async with served.page() as page:
            await page.shows("score")
            (process,) = served.children()
            served.process.kill()
            served.process.wait()
            until_ended(process)

    asyncio.run(look(serve()))


def test_a_page_whose_process_was_killed_is_closed(serve: Callable[[], Served]) -> None:
    async def look(served: Served) -> None:
        async with served.page() as page:
            await page.shows("score")
            (process,) = served.children()
            os.kill(process, signal.SIGKILL)
            await page.ends()

    asyncio.run(look(serve()))


def test_what_is_wrong_is_said_before_anything_listens(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def says(*words: str) -> str:
        assert main(["tui", *words]) == 2
        said = capsys.readouterr()
        assert not said.out and said.err.count("\n") == 1
        return said.err

    name = str(tmp_path / "run.sql")
    record(tmp_path / "run.sql")
    assert "'x:y' is no HOST:PORT" in says(name, "--serve", "x:y")
    assert "name files before --serve" in says("--serve", name)
    assert "can't listen on '192.0.2.1:80'" in says(name, "--serve", "192.0.2.1:80")
    assert "no screen 'jobs'" in says(name, "--serve", "--screen", "jobs")
    assert "--portal: is for --serve" in says(name, "--portal", "hub.example")
