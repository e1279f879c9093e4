"""The metrics of GPUs that a Prometheus server holds, asked for over its HTTP API, window after window. Speaks to the server
that was named and to no other: a redirect to another host is refused, and so is one away from https."""

import json
import os
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Iterator, Mapping
from http.client import HTTPException, HTTPResponse
from time import monotonic
from typing import IO, Any
from urllib.parse import unquote, urlencode, urlsplit, urlunsplit

import numpy as np

from gssr.foreign.json_file import decode
from gssr.foreign.names import ROWS
from gssr.foreign.prometheus_range import KIND, answer_of, numbered, sampled, step_of
from gssr.foreign.prometheus_series import SeriesTable
from gssr.foreign.series import ForeignError, ForeignSeries, ImportHints, Note, plain
from gssr.prometheus import FAMILIES, RUN_INFO
from gssr.store.format.sample_arrays import Samples

POINTS = 11_000
"""Of a series, that Prometheus gives in one answer, at most; source: its web/api/v1."""
_VALUES = 1_000_000
"""Of all series, that are asked for at once: some 30 MB of text."""
_MOST_BYTES = 256 << 20
"""Of one answer."""
_TIMEOUT, _PATIENCE = 60.0, 600.0
"""s until something comes, and until all of an answer has."""
_STEP = 15.0
"""s, where the server's own interval can't be told."""
_LOOKED_AT = 600.0
"""s before the end in which the server's own interval is looked for."""
_HOSTS = ("Hostname", "hostname", "node", "kubernetes_node")
"""Labels that name a node; where none does, the address that was asked."""
_FIELDS = [f"DCGM_FI_{macro}" for row in ROWS for macro in row.dcgm.split()] + [f"dcgm_{row.tag}" for row in ROWS]
_METRICS = "|".join([*_FIELDS, *(family.sample for family in FAMILIES.values()), RUN_INFO.sample])


class _SameHost(urllib.request.HTTPRedirectHandler):
    """Follows redirects on the same host only."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        """Follow a redirect on the same host, also from http to https. Raises ForeignError if it leads to another host."""
        old, new = urlsplit(req.full_url), urlsplit(newurl)
        if (new.scheme, new.netloc) not in ((old.scheme, old.netloc), ("https", old.netloc)):
            raise ForeignError(f"redirects to another host, {plain(new.netloc)}: name that one to ask it")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


class _Server:
    """A Prometheus server. ``name`` is its address without user and password, as sentences call it. Raises ForeignError
    if ``url`` is no address of a server. ``through_proxy``: ask the proxy that http_proxy or https_proxy names."""

    def __init__(self, url: str, token: str | None, through_proxy: bool) -> None:
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError:
            raise ForeignError("--prometheus: is no address of a server: it is like http://HOST:9090") from None
        if parts.scheme not in ("http", "https") or not host:
            raise ForeignError("--prometheus: is no address of a server: it is like http://HOST:9090, or https://HOST")
        if parts.query or parts.fragment:
            raise ForeignError("--prometheus: is the address of a server, without what stands behind ? or #")
        place = f"[{host}]" if ":" in host else host
        netloc = place if port is None else f"{place}:{port}"
        self.name = urlunsplit((parts.scheme, netloc, parts.path.rstrip("/"), "", ""))
        self._headers = {"Accept": "application/json", "User-Agent": "gssr"}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        elif parts.username is not None:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self._headers["Authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
        self._opener = urllib.request.OpenerDirector()  # of its own: it knows no file:, ftp: and data:
        for handler in (
            urllib.request.ProxyHandler(None if through_proxy else {}),
            urllib.request.HTTPHandler(),
            urllib.request.HTTPSHandler(),
            _SameHost(),
            urllib.request.HTTPDefaultErrorHandler(),
            urllib.request.HTTPErrorProcessor(),
        ):
            self._opener.add_handler(handler)

    def ask(self, what: str, **parameters: object) -> Any:
        """Ask for ``/api/v1/what`` with these parameters, and decode the answer's JSON. Raises ForeignError if the
        server cannot be reached, refuses, or answers with too much or no JSON."""
        url = f"{self.name}/api/v1/{what}?{urlencode(parameters)}"
        try:
            request = urllib.request.Request(url, headers=self._headers)
            with self._opener.open(request, timeout=_TIMEOUT) as answer:
                data = _all_of(answer)
        except urllib.error.HTTPError as error:
            raise ForeignError(f"{self.name}: {_refusal(error)}") from None
        except ForeignError as error:
            raise ForeignError(f"{self.name}: {error}") from None
        except (OSError, HTTPException, ValueError) as error:
            reason = error.reason if isinstance(error, urllib.error.URLError) else error
            why = getattr(reason, "strerror", None) or reason
            raise ForeignError(f"{self.name}: can't be asked: {plain(str(why) or type(error).__name__, 200)}") from None
        return decode(data, self.name)


def _all_of(answer: HTTPResponse) -> bytes:
    """Read all bytes of an answer. Raises ForeignError if they are too many or take too long."""
    parts, size, begun = [], 0, monotonic()
    while piece := answer.read1(1 << 20):
        parts.append(piece)
        size += len(piece)
        if size > _MOST_BYTES:
            raise ForeignError(f"answers with more than {_MOST_BYTES >> 20} MiB: --host NAME asks for less")
        if monotonic() - begun > _PATIENCE:
            raise ForeignError(f"has not answered within {_PATIENCE:g} s")
    return b"".join(parts)


def _refusal(error: urllib.error.HTTPError) -> str:
    """Say in a phrase that the server refused, with its own reason if the error's body is JSON."""
    with error:
        try:
            said = json.loads(error.read(1 << 16))["error"]
        except (OSError, HTTPException, ValueError, KeyError, TypeError, RecursionError):
            said = ""
    cure = ": --token-file FILE, or GSSR_PROMETHEUS_TOKEN, tells who asks" if error.code in (401, 403) else ""
    return f"refuses with {error.code} {plain(said or error.reason, 200)}{cure}"


def read_server(
    url: str, begin: float, end: float, told: ImportHints, token: str | None, through_proxy: bool = False
) -> ForeignSeries:
    """Read the metrics of GPUs that a Prometheus server holds, between two unix times, s. The series is there when the
    server has answered once, its pieces come with more answers; both raise ForeignError.

    Args:
        url: the server. A user and a password in it are recorded nowhere.
        begin: from when on, unix s.
        end: until when, unix s.
        told: ``interval``: seconds between two samples (None: as the server asks for them itself); ``host``: only this node.
        token: is sent as a Bearer token (see ``token_of``); without it the user and the password in ``url``.
        through_proxy: ask the proxy that http_proxy or https_proxy names. Compute nodes have these variables for the
            internet, and the server, which is mostly inside, would get the token by somebody else.
    """
    server = _Server(url, token, through_proxy)
    if not begin < end:
        raise ForeignError(f"{server.name}: there is no time between --from and --to")
    selector, labels = _selected(server, begin, end, told.host)
    step = told.interval or _own_step(server, labels[0], end) or _STEP
    series = ForeignSeries(
        KIND, iter(()), sampling_seconds=told.interval, label=server.name, started_at=begin, ended_at=end
    )
    series.pieces = _pieces(server, selector, len(labels), np.array([begin, end, step]), told, series)
    return series


def _selected(server: _Server, begin: float, end: float, host: str | None) -> tuple[str, list[dict[str, str]]]:
    """Find the series of GPUs that the server holds between two unix times, s; only those of the node ``host`` unless
    it is None.

    Returns the selector for queries and the labels of each series. Raises ForeignError if there are none.
    """
    among = [""]
    if host is not None:
        own = json.dumps(host, ensure_ascii=False)
        among = [f",{label}={own}" for label in _HOSTS]
        among.append(f",instance=~{json.dumps(''.join(_quoted(c) for c in host) + '(:[0-9]+)?', ensure_ascii=False)}")
    for part in among:
        selector = f'{{__name__=~"{_METRICS}"{part}}}'
        said = server.ask("series", **{"match[]": selector, "start": begin, "end": end})
        found = said.get("data") if isinstance(said, dict) and said.get("status") == "success" else None
        if not isinstance(found, list):
            raise ForeignError(f"{server.name}: is no Prometheus: it does not tell its series")
        labels = [each for each in found if isinstance(each, dict) and isinstance(each.get("__name__"), str)]
        labels.sort(key=lambda each: each["__name__"] == RUN_INFO.sample)  # that has times of its own
        if labels:
            return selector, labels
    of = "" if host is None else f" of {host}"
    raise ForeignError(f"{server.name}: holds no metric of a GPU{of} that GSSR knows from that time")


def _quoted(character: str) -> str:
    """Quote a character for a regular expression of Prometheus."""
    return f"\\{character}" if character in ".*+?()[]{}|^$\\" else character


def _own_step(server: _Server, labels: Mapping[str, str], end: float) -> float | None:
    """Find the seconds between two samples of the series with these labels, as the server scrapes them; at least 0.1.
    None if it has no two samples shortly before ``end``, or the server cannot say."""
    among = ",".join(f"{key}={json.dumps(str(value), ensure_ascii=False)}" for key, value in labels.items())
    try:
        said = server.ask("query", query=f"{{{among}}}[{_LOOKED_AT:.0f}s]", time=end)
        step = step_of(sampled(answer_of(said, server.name, []), []))
    except ForeignError:
        return None
    return None if step is None else max(round(step, 1), 0.1)


def _pieces(
    server: _Server, selector: str, n_series: int, asked: Any, told: ImportHints, series: ForeignSeries
) -> Iterator[Samples]:
    """Ask for window after window, and yield rows with ascending times. ``selector`` names the series, of which there
    are about ``n_series``; ``asked`` is [begin, end, step] in s; GPUs and notes are added to ``series``. Raises
    ForeignError if an answer fails or no window has samples."""
    begin, end, step = asked.tolist()
    table = SeriesTable(series, told)
    points = int(max(2, min(POINTS, _VALUES // max(n_series, 1))))
    said: list[str] = []
    n = 0
    for first in range(0, int((end - begin) / step) + 1, points):
        window = begin + first * step, min(begin + (first + points - 1) * step, end)
        answer = server.ask("query_range", query=selector, start=window[0], end=window[1], step=step)
        samples = numbered(sampled(answer_of(answer, server.name, said), said), table, told, series)
        n += len(samples[0])
        yield from table.pieces(*samples)
    table.finish()
    told_before = {note.text for note in series.notes}
    series.notes += [Note(each) for each in dict.fromkeys(said) if each not in told_before]
    if not n:
        raise ForeignError(f"{server.name}: holds no samples from that time")


def token_of(path: str | None, environ: Mapping[str, str] = os.environ) -> str | None:
    """Read the token from the file ``path``, or from GSSR_PROMETHEUS_TOKEN if ``path`` is None. None if neither is
    given. Raises ForeignError if the file cannot be read or is empty, or the token is not one word of ASCII."""
    found = environ.get("GSSR_PROMETHEUS_TOKEN")
    if path is not None:
        try:
            with open(path, encoding="ascii", errors="replace") as stream:
                found = stream.read(1 << 16)
        except OSError as error:
            raise ForeignError(f"--token-file {path}: can't be read: {error.strerror}") from None
    found = (found or "").strip()
    if path is not None and not found:
        raise ForeignError(f"--token-file {path}: is empty")
    if not (found.isascii() and found.isprintable()) or " " in found:
        raise ForeignError(
            f"{f'--token-file {path}' if path else 'GSSR_PROMETHEUS_TOKEN'}: holds no token: it is one word"
        )
    return found or None
