"""The live screen in a browser: a web server that shows nothing to anybody without its token.

textual-serve runs a process for each page that is open. It is the command that was typed, once more: that it draws for a
browser, and so writes nothing, it reads from its environment (``gssr.commands.in_browser``).
"""

import asyncio
import json
import secrets
import shlex
import socket
import sys
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import textual_serve
from aiohttp import WSCloseCode, WSMessage, web
from textual_serve.app_service import AppService
from textual_serve.download_manager import DownloadManager

LOOPBACK = "127.0.0.1"
_LOOPBACK_NAMES = (LOOPBACK, "localhost", "::1")
_ANY_ADDRESS = ("0.0.0.0", "::")
_MAX_COLUMNS, _MAX_ROWS = 1000, 500
"""A page with more cells than any screen has would cost its process their memory."""
_CLOSING_SECONDS, _ENDING_SECONDS = 2.0, 5.0
"""How long a browser may take to say goodbye, and a process to end, once the server ends."""
_HEADERS = {
    # xterm.js puts its measures into style elements, and has no other way
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; font-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'",
    "Referrer-Policy": "no-referrer",  # whose path would be the token
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "Server": "GSSR",
}
_FOLDER = Path(__file__).parent

_base: Any = AppService


class _ScreenProcess(_base):  # type: ignore[misc]
    """A process that draws for one page, of which nothing is taken but its drawing."""

    async def run(self) -> None:
        """Take what the process draws until it ends, for whatever reason, and then close the page."""
        await super().run()
        await self.remote_close()

    async def on_data(self, payload: bytes) -> None:
        """Show this on the page. If the page is gone, it is taken all the same, as a process whose drawing nobody
        takes can't end."""
        try:
            await super().on_data(payload)
        except ConnectionResetError:
            pass

    async def on_meta(self, data: bytes) -> None:
        """Open no address and download no file for it."""


class ScreenServer:
    """A web server for pages on which ``command`` draws. ``names``: what its machine may be called by a browser;
    ``portals``: hosts whose pages may show it, too."""

    def __init__(self, command: Iterable[str], names: Iterable[str], portals: Iterable[str]) -> None:
        self.token = secrets.token_urlsafe(32)
        self._command = f"exec {shlex.join(command)}"  # textual-serve gives it to a shell
        self._portals = {portal.lower() for portal in portals}
        self._names = {name.lower() for name in names} | self._portals
        self._open: set[web.WebSocketResponse] = set()

    def application(self) -> web.Application:
        """Make the web application: it answers only below the token's path, and only under a name of this machine."""

        async def let_in(
            request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
        ) -> web.StreamResponse:
            if not self._may_enter(request):
                raise web.HTTPForbidden
            return await handler(request)

        async def put_headers(_request: web.Request, response: web.StreamResponse) -> None:
            response.headers.update(_HEADERS)

        application = web.Application(middlewares=[web.middleware(let_in)])
        application.on_response_prepare.append(put_headers)
        application.on_shutdown.append(self._close)
        application.add_routes(
            [
                web.get(f"/{self.token}/", _file("page.html")),
                web.get(f"/{self.token}/page.js", _file("page.js")),
                web.get(f"/{self.token}/ws", self._show),
                web.static(f"/{self.token}/static", Path(textual_serve.__file__).parent / "static"),
            ]
        )
        return application

    def _may_enter(self, request: web.Request) -> bool:
        """Tell whether a request has the token and calls this machine by one of its own names; another name means a
        page whose owner has pointed that name here."""
        given = request.path.removeprefix("/").partition("/")[0]
        has_token = secrets.compare_digest(given.encode(errors="replace"), self.token.encode())
        return has_token and _host_name(f"//{request.headers.get('Host', '')}") in self._names

    def _is_own_page(self, request: web.Request) -> bool:
        """Tell whether the page that asks is from this server, or from a portal."""
        origin = request.headers.get("Origin", "")
        is_from_here = origin.partition("://")[2] == request.headers.get("Host")
        return is_from_here or _host_name(origin) in self._portals

    async def _show(self, request: web.Request) -> web.StreamResponse:
        """Run a process for one page for as long as it is open, and then stop it. Raises HTTPForbidden for a page that
        is not ours."""
        if not self._is_own_page(request):
            raise web.HTTPForbidden
        page = web.WebSocketResponse(heartbeat=15.0, timeout=_CLOSING_SECONDS)
        await page.prepare(request)
        process = _ScreenProcess(
            self._command,
            write_bytes=page.send_bytes,
            write_str=page.send_str,
            close=page.close,
            download_manager=DownloadManager(),
        )
        self._open.add(page)
        try:
            await process.start(*_size(request.query))
            async for message in page:
                await _pass_on(message, page, process)
        finally:
            self._open.discard(page)
            await process.stop()
        return page

    async def _close(self, _application: web.Application) -> None:
        await asyncio.gather(*(page.close(code=WSCloseCode.GOING_AWAY) for page in self._open))


def listen(address: str) -> tuple[socket.socket, str]:
    """Open a socket on HOST:PORT, on loopback without a HOST and on a free port without a PORT. Returns it and the
    host. Raises ValueError, with a part of a sentence."""
    try:
        parts = urlsplit(f"//{address}")
        if parts.netloc != address or "@" in address:
            raise ValueError
        host, port = parts.hostname or LOOPBACK, parts.port or 0
    except ValueError:
        raise ValueError(f"{address!r} is no HOST:PORT") from None
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family), host
    except OSError as error:
        raise ValueError(f"can't listen on {address!r}: {error.strerror}") from None


def serve(listening: socket.socket, host: str, portals: Iterable[str], say: Callable[[str], object]) -> None:
    """Show the command that was typed to browsers until Ctrl-C. ``host``: what this machine is called; ``portals``:
    hosts whose pages may show it too; ``say`` is called with the address, which holds the token."""
    names = [*_LOOPBACK_NAMES, host]
    if host not in _LOOPBACK_NAMES:
        names += [socket.gethostname(), socket.getfqdn()]
    server = ScreenServer([sys.executable, *sys.orig_argv[1:]], names, portals)
    called = socket.gethostname() if host in _ANY_ADDRESS else f"[{host}]" if ":" in host else host
    say(f"http://{called}:{listening.getsockname()[1]}/{server.token}/")
    web.run_app(
        server.application(), sock=listening, shutdown_timeout=_ENDING_SECONDS, print=None, access_log=None
    )  # a log would hold the token


def _file(name: str) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    """Return the handler that answers a request with this file of the server's own folder."""

    async def answer(_request: web.Request) -> web.StreamResponse:
        return web.FileResponse(_FOLDER / name)

    return answer


def _host_name(address: str) -> str:
    """Return the host of an address without its port, or "" if there is none."""
    try:
        return urlsplit(address).hostname or ""
    except ValueError:
        return ""


def _size(said: Any) -> tuple[int, int]:
    """Return the columns and rows that a browser says its page has, held within 1 and the limits; 80 × 24 if it says
    nothing usable."""
    try:
        width, height = int(said["width"]), int(said["height"])
    except (KeyError, TypeError, ValueError):
        return 80, 24
    return min(max(width, 1), _MAX_COLUMNS), min(max(height, 1), _MAX_ROWS)


async def _pass_on(message: WSMessage, page: web.WebSocketResponse, process: _ScreenProcess) -> None:
    """Give the process what a browser says; anything that textual-serve's page would not say is ignored."""
    try:
        said = json.loads(message.data)
    except (TypeError, ValueError, RecursionError):
        return
    match said:
        case ["stdin", str(keys)]:
            await process.send_bytes(keys.encode(errors="replace"))
        case ["resize", dict(size)]:
            await process.set_terminal_size(*_size(size))
        case ["focus", *_]:
            await process.focus()
        case ["blur", *_]:
            await process.blur()
        case ["ping", moment]:
            await page.send_json(["pong", moment])
