"""A rank's part in the sampling of its node's GPUs at DCGM's hostengine.

The hostengine is outside the ranks' cgroups: through it one rank can sample the GPUs of all, even where each rank sees but
its own. One connection for eight GPUs costs little more than one for a single GPU, and an engine has room for the groups of
some thirty connections only.

Each rank tells the others which GPUs it uses, by a text under a claim of its own. The rank that has the claim
``hostengine``, the node's sampler, has all of these sampled, and tells under this claim what the backend measures. Where
ranks come later, it opens a backend on all GPUs and then closes the one before. The GPUs of a rank that has ended are left
out. When the node's sampler ends, another rank takes the claim over.
"""

import json
import math
import os
from collections.abc import Callable, Sequence
from time import monotonic, sleep
from typing import NamedTuple

from gssr.backends import open_at_engine
from gssr.backends.backend_opening import BackendOpening
from gssr.backends.base import AtEngine, Backend, BackendChange, BackendError, Device, News, Row
from gssr.profile.sampling.backend_offer import BackendOffer, read_offer, write_offer
from gssr.profile.sampling.claims import Claims

TOGETHER_SECONDS = 1.0
"""So long the first opening waits for ranks whose workloads run and that have not told their GPUs yet: to open it anew for
them takes longer. A rank without a GPU never tells any."""
OVERLAP_SECONDS = 1.0
"""A backend on more GPUs samples so long before the one that it replaces is closed, which on a busy machine reads late what
the hostengine has sampled. Its own rows wait in its thread meanwhile."""
RETRY_SECONDS = 5.0
"""After this time GPUs of ranks that came later are tried again, where the hostengine could not be asked for them."""
_WAIT_SECONDS = 0.02
_SAMPLER = "hostengine"
_USES = "uses"
_TAKEN_OVER = "the node's GPUs are sampled by this rank from now on: the one before has ended"


class UsedGpu(NamedTuple):
    """A GPU, and a rank that uses it."""

    rank: int
    device: Device


class EngineShare:
    """This rank among those whose GPUs one of them samples. ``offer`` is what the node's sampler has told of the backend,
    None until it has. ``gpus`` are those that rows name by position: this rank's own, in the order of ``devices``, then
    those of other ranks in the order in which this one began to sample them."""

    def __init__(
        self,
        claims: Claims,
        rank: int,
        devices: Sequence[Device],
        engine: AtEngine,
        sampling_seconds: float,
        n_workloads: Callable[[], int],
    ) -> None:
        """Prepare; nothing is told or opened before ``look``.

        Args:
            claims: this process's claims.
            rank: this process's.
            devices: its GPUs.
            engine: where the hostengine is, and how it names these GPUs.
            sampling_seconds: between two samples.
            n_workloads: counts the node's ranks whose workloads run, as far as they have said so.
        """
        self.offer: BackendOffer | None = None
        self.gpus = [UsedGpu(rank, device) for device in devices]
        self._claims = claims
        self._spec = engine.spec
        self._interval = sampling_seconds
        self._own = {engine.names[gpu.device.uuid]: gpu for gpu in self.gpus}
        self._claim = f"{_USES}-{rank}-{os.getpid()}"
        self._has_told = self._samples_for_node = self._has_failed = False
        self._n_workloads = n_workloads
        self._n_telling = 1
        self._wait_until = monotonic() + TOGETHER_SECONDS
        self._used = self._own
        self._left: dict[str, float] = {}  # unix s, when the rank of a GPU was seen to have ended
        self._settled: frozenset[str] = frozenset()
        self._position = {name: position for position, name in enumerate(self._own)}
        self._n_taken = len(devices)
        self._opening: BackendOpening | None = None
        self._asked_at = self._retry_at = -math.inf
        self._opening_gpus: dict[str, UsedGpu] = {}
        self._successor: Backend | None = None
        self._replaced_at = math.inf
        self._backend: Backend | None = None
        self._names: tuple[str, ...] = ()
        self._newest: dict[int, float] = {}
        self._not_before: dict[int, float] = {}
        self._rows: list[Row] = []
        self._news: list[News] = []
        self._said: set[str] = set()

    @property
    def n_sampled(self) -> int:
        """The number of GPUs that this rank samples for the node, its own among them; 0 where another rank does that."""
        return len(self._names) if self._backend is not None else 0

    @property
    def is_opening(self) -> bool:
        """Tell whether the hostengine is being asked now."""
        return self._opening is not None

    @property
    def samples_for_node(self) -> bool:
        """Tell whether this rank is the node's sampler."""
        return self._samples_for_node

    def look(self, now: float) -> None:
        """Tell the others which GPUs this rank uses, and become the node's sampler if no other rank is.

        To be called again and again: the node's sampler opens its backend here, anew for ranks that come later; any
        other rank reads the offer. ``now``: unix s. Raises OSError where claims don't work.
        """
        claims = self._claims
        if not self._has_told and claims.take([self._claim]):
            rows = [[gpu.rank, list(gpu.device), name] for name, gpu in self._own.items()]
            claims.tell(self._claim, json.dumps(rows))
            self._has_told = True
        if not self._samples_for_node and not self._has_failed and claims.take([_SAMPLER]):
            self._samples_for_node = True
            if self.offer is not None:
                self._news.append(BackendChange("backend", None, _TAKEN_OVER))
        if self._samples_for_node:
            before, self._used = self._used, self._own | self._others()
            self._left |= {name: now for name in before if name not in self._used}
            if self._opening is not None:
                self._finish_opening(self._opening)
            elif self._successor is None:
                self._begin_opening()
            elif monotonic() >= self._replaced_at:
                self._replace()
        elif self.offer is None:
            self.offer = read_offer(claims.text_of(_SAMPLER))

    def take_new_gpus(self) -> list[UsedGpu]:
        """Return the GPUs that were added to ``gpus`` since the last call: those of other ranks that this one samples."""
        new, self._n_taken = self.gpus[self._n_taken :], len(self.gpus)
        return new

    def sample(self, now: float) -> tuple[list[Row], list[News]]:
        """Return the new rows and news of the node's GPUs, by their positions in ``gpus``; both empty where another
        rank samples.

        Where the backend fails, that is among the news, and this rank leaves the claim to another. ``now``: unix s.
        """
        if self._backend is not None:
            try:
                self._keep(self._backend.sample(now), self._backend.changes())
            except Exception as error:  # a fault in the bindings, say: another rank may have more luck
                self._news.append(BackendChange("backend_lost", None, f"dcgm failed: {error!r}"))
                self._keep(self._backend.close(), ())
                self._close_successor()
                self._backend, self._names, self._has_failed, self._samples_for_node = None, (), True, False
                self._claims.release(_SAMPLER)
        rows, news = self._rows, self._news
        self._rows, self._news = [], []
        return rows, news

    def wait(self, seconds: float, now: float) -> None:
        """Call ``look`` again and again until ``offer`` is known, but for no longer than ``seconds``. ``now`` (unix s)
        is given to each of these calls as it is. Raises OSError where claims don't work."""
        end = monotonic() + seconds
        while self.offer is None and monotonic() < end:
            sleep(_WAIT_SECONDS)
            self._wait_until = -math.inf
            self.look(now)

    def close(self) -> tuple[list[Row], list[News]]:
        """Close the backend, and return the last rows and news; both empty where another rank samples."""
        self._close_successor()
        if self._backend is not None:
            rows = self._backend.close()
            self._keep(rows, self._backend.changes())
            self._backend, self._names = None, ()
        rows, self._rows = self._rows, []
        return list(rows), self._news

    def place_of(self, position: int) -> str:
        """Name the GPU at a position of ``gpus`` for the user: its index, and its rank where that is another."""
        gpu = self.gpus[position]
        return f"GPU {gpu.device.device_index}" + (f" of rank {gpu.rank}" if gpu.rank != self.gpus[0].rank else "")

    def _others(self) -> dict[str, UsedGpu]:
        """Return the GPUs of the other living ranks by their names in the hostengine, as far as they can be read."""
        found: dict[str, UsedGpu] = {}
        texts = self._claims.texts(f"{_USES}-")
        self._n_telling = 1 + len(texts)
        for text in texts:
            try:
                gpus = {str(name): UsedGpu(int(rank), Device(*device)) for rank, device, name in json.loads(text)}
            except (ValueError, TypeError):
                continue
            found |= {name: gpu for name, gpu in gpus.items() if name not in self._own and name not in found}
        return found

    def _begin_opening(self) -> None:
        """Begin to open a backend on all GPUs that are used, if there are some that the present one lacks and no more
        are about to come."""
        names = frozenset(self._used)
        if names.issubset(self._names) or monotonic() < self._retry_at:
            return
        if self.offer is None and self._n_telling < self._n_workloads() and monotonic() < self._wait_until:
            return
        if names != self._settled and (self._backend is not None or self.offer is None):
            self._settled = names  # other ranks may be about to tell theirs: once nobody has for the time of a look
            return
        self._opening_gpus = self._used
        chosen = {name: gpu.device for name, gpu in self._used.items()}
        how = (self._spec, chosen, self._interval)
        self._opening, self._asked_at = BackendOpening("dcgm", lambda: open_at_engine(*how)), monotonic()

    def _finish_opening(self, opening: BackendOpening) -> None:
        """Look whether the backend is open (it is waited for no longer): it then becomes the successor, or at once the
        backend if there is none, and the others are told what it measures. If it failed it is opened again later; the
        others are told the error if none was ever open, otherwise it becomes an event."""
        try:
            opened = opening.opened()
        except BackendError as error:
            self._opening, self._retry_at = None, monotonic() + RETRY_SECONDS
            if self.offer is None:
                self._tell(BackendOffer(error=str(error)))
            elif str(error) not in self._said:
                self._said.add(str(error))
                text = f"not all GPUs of the node's ranks are sampled: {error}"
                self._news.append(BackendChange("backend", None, text))
            return
        if opened is None:
            return
        self._opening = None
        self._successor, self._replaced_at = opened.backend, monotonic() + OVERLAP_SECONDS
        if self._backend is None:
            self._replace()
        about = (opened.sampling_seconds, list(opened.remarks), list(opened.passed_over))
        self._tell(BackendOffer((), opened.backend.name, list(opened.backend.measures), *about))

    def _replace(self) -> None:
        """Close the backend and keep its last rows, and let its successor take its place. GPUs that are new get
        positions at the end of ``gpus``."""
        if self._backend is not None:
            last = self._backend.close()
            self._keep(last, self._backend.changes())
            self._not_before = {gpu: time + self._interval / 2 for gpu, time in self._newest.items()}
        self._backend, self._successor, self._names = self._successor, None, tuple(self._opening_gpus)
        for name, gpu in self._opening_gpus.items():
            if name not in self._position:
                self._position[name] = len(self.gpus)
                self.gpus.append(gpu)

    def _close_successor(self) -> None:
        """Close the successor, if there is one."""
        if self._successor is not None:
            self._successor.close()
            self._successor = None

    def _tell(self, offer: BackendOffer) -> None:
        """Tell the other ranks the offer; the first one told stays this rank's ``offer``."""
        self.offer = self.offer or offer
        self._claims.tell(_SAMPLER, write_offer(offer))

    def _keep(self, rows: Sequence[Row], news: Sequence[News]) -> None:
        """Add rows and news of the backend to those that ``sample`` returns next, with positions in ``gpus`` in place of
        its own. Left out are rows that the backend before has told already, and what is of a GPU after its rank has
        ended."""
        places = [self._position[name] for name in self._names]
        ends = [math.inf if name in self._used else self._left.get(name, -math.inf) for name in self._names]
        for row in rows:
            gpu = int(row[0] or 0)
            place, time = places[gpu], float(row[1] or 0.0)
            if self._not_before.get(place, -math.inf) <= time <= ends[gpu]:
                self._newest[place] = time
                self._rows.append((place, *row[1:]))
        for each in news:
            if each.gpu is None:
                if isinstance(each, BackendChange) and each.kind == "backend":
                    if each.message in self._said:
                        continue  # each backend says it anew
                    self._said.add(each.message)
                self._news.append(each)
            elif ends[each.gpu] == math.inf:
                self._news.append(each._replace(gpu=places[each.gpu]))
