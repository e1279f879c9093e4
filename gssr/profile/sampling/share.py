"""This process's share of what is to be sampled on its node: the GPUs and the host that no other rank of the run samples.

Ranks that see the same GPUs need only one of them to ask the driver: it leaves a note of what it found. The others load no
driver, until a rank ends early and they take over what it sampled. Through DCGM's hostengine one rank samples the GPUs of
all (``gssr.profile.sampling.engine_share``); then a rank's own backend only asks the driver for processes and errors.
"""

from __future__ import annotations

import os
from binascii import crc32
from collections.abc import Callable, Sequence
from time import monotonic
from typing import TYPE_CHECKING

from gssr.backends import open_backend, select_gpus
from gssr.backends.backend_opening import BackendOpening
from gssr.backends.base import AtEngine, Backend, BackendError, News, ProcessSnapshot, Row
from gssr.launch import RUNTIMES
from gssr.metrics import BY_NAME, NAMES, SCORE_INPUTS
from gssr.profile.sampling.backend_offer import BackendOffer, read_offer, write_offer
from gssr.profile.sampling.claims import Claims
from gssr.profile.sampling.plan import Plan
from gssr.profile.sampling.sample_writer import SampleWriter
from gssr.profile.sampling.say_once import say_from_sampler
from gssr.store.format.schema import NO_GPU
from gssr.store.liveness import process_start
from gssr.store.write.writer import COMMIT_SECONDS

if TYPE_CHECKING:
    from gssr.backends.pods import PodNames
    from gssr.backends.workload_processes import WorkloadSampler
    from gssr.profile.sampling.engine_share import EngineShare
    from gssr.profile.sampling.gpu_processes import GpuProcessLog
    from gssr.profile.sampling.low_score import LowScore
    from gssr.profile.sampling.textfile import Textfile

LOOK_SECONDS = 0.5
"""What another rank sampled is taken over this long after its end at most."""
WAIT_SECONDS = 0.05
"""How often a rank that waits for a driver, or for another's note, looks whether it is there."""
OPENING_SECONDS = 0.5
"""A driver that has not answered when the workload ends is waited for until this long after it was asked."""

_HOST = "host"
_WORKLOAD = "workload"


class Share:
    """Opens the backend and asks it for the GPUs that are this process's to sample. ``say`` tells the user a line.

    ``host`` is True while this process samples the host. One of a node's ranks does, and only that one speaks for all.
    ``by_itself``: the backend keeps deadlines of its own, and is only collected from."""

    def __init__(self, plan: Plan, writer: SampleWriter, say: Callable[[str], None], now: float) -> None:
        self.host = plan.host
        self.by_itself = False
        self._plan = plan
        self._writer = writer
        self._say = say
        self._node = str(plan.process["node"])
        self._claims: Claims | None = None
        self._offered: BackendOffer | None = None
        """What this process's own backend offers; ``_found`` is what it comes to, with what the node's sampler tells."""
        self._found: BackendOffer | None = None
        self._engine: EngineShare | None = None
        self._without_engine = False
        self._backend: Backend | None = None
        self._opening: BackendOpening | None = None
        self._asked = 0.0  # monotonic, s: when that began
        self._mine: set[str] = set()  # UUIDs
        self._place: dict[int, int] = {}  # of a GPU in the backend → in what was found, for those that are ours
        self._renumbered = self._settled = self._failed = False
        self._view = _view(plan)
        self._workloads: list[tuple[int, int]] = []
        self._members: WorkloadSampler | None = None
        self._processes: GpuProcessLog | None = None
        self.low_score: LowScore | None = None
        self._textfile: Textfile | None = None
        self._pods: PodNames | None = None
        if plan.textfile is not None:
            from gssr.backends.pods import PodNames
            from gssr.profile.sampling.textfile import textfile_of

            self._textfile = textfile_of(plan, plan.textfile, self._tell)
            self._pods = PodNames()
        if plan.siblings:
            try:
                self._claims = Claims(self._node, str(plan.run["run_id"]))
                self.host = False
            except OSError as error:
                self._do_without(now, error)

    def started(self, pid: int, workload: WorkloadSampler) -> None:
        """Record that this rank's workload runs, so that its processes on GPUs count as the job's own, whichever rank
        samples these."""
        start = process_start(pid)
        if start is None:
            return
        self._workloads.append((pid, start))
        self._members = workload
        try:
            if self._claims is not None:
                self._claims.take([f"{_WORKLOAD}-{pid}-{start}"])
        except OSError:
            pass  # then each rank samples all GPUs

    def _all_workloads(self) -> list[tuple[int, int]]:
        """List (process id, start) of the run's workloads on this node, as far as they have been told. This rank's may
        come twice."""
        names = self._claims.names() if self._claims is not None else ()
        told = (name.split("-")[1:] for name in names if name.startswith(f"{_WORKLOAD}-"))
        return [*self._workloads, *((int(pid), int(start)) for pid, start in told)]

    @property
    def sampling(self) -> bool:
        """Tell whether there are GPUs that are ours to sample, or whose processes and errors are ours to look for."""
        return self._backend is not None or (self._engine is not None and self._engine.n_sampled > 0)

    @property
    def settled(self) -> bool:
        """Tell whether it is known which GPUs there are, and who samples them at first."""
        return self._settled

    @property
    def interval(self) -> float:
        """Seconds between two calls of ``sample``."""
        return COMMIT_SECONDS if self.by_itself and not self._plan.hurried else self._plan.sampling_seconds

    @property
    def lag(self) -> float:
        """The seconds from a tick to the call of ``sample``. 0 for a backend that samples when it is called. One with
        deadlines of its own is asked between two of its ticks, because two threads at once hold each other up, and soon
        after one if somebody waits for the samples."""
        if not self.by_itself:
            return 0.0
        return min(self._plan.sampling_seconds, self.interval) / (10 if self._plan.hurried else 2)

    @property
    def look_seconds(self) -> float | None:
        """Seconds until ``look`` is to be called again; None when there is nothing left to take."""
        if self._found is None or self._opening is not None or (self._engine is not None and self._engine.is_opening):
            return WAIT_SECONDS
        if self._engine is not None and self._claims is not None:
            return LOOK_SECONDS
        waits_for_gpus = not self._failed and len(self._mine) < len(self._found.devices)
        return LOOK_SECONDS if self._claims is not None and (waits_for_gpus or not self.host) else None

    def look(self, now: float) -> int:
        """Take what no other rank samples, or no longer samples; return how many GPUs have become ours by that.
        ``now``: unix s."""
        before = self._n_ours
        self._look(now)
        return max(0, self._n_ours - before)

    @property
    def _n_ours(self) -> int:
        return len(self._mine) + (self._engine.n_sampled if self._engine is not None else 0)

    def _look(self, now: float) -> None:
        """Take what no other rank samples; without claims everything, once."""
        if self._claims is not None:
            try:
                self._take(self._claims, now)
                return
            except OSError as error:
                self._do_without(now, error)
        if self._settled:
            return  # what is ours stays ours
        found = self._found
        if found is None:
            opened = self._open()
            if opened is None:
                return
            found = self._learn(now, opened)
        self._settled = self._sample_too([device.uuid for device in found.devices], now)

    def _take(self, claims: Claims, now: float) -> None:
        """Claim the host and GPUs, and find out what there is, together with the other ranks of the node. Raises
        OSError where claims don't work."""
        late = self._settled
        if not self.host and claims.take([_HOST]):
            self.host = True
            if late:
                self._writer.event(now, "backend", "the host is sampled by this rank from now on: another has ended")
        if self._engine is not None:
            self._engine.look(now)
        if self._found is None:
            offered = self._offered or self._ask(claims)
            if offered is None:
                return  # the driver is being asked, by this rank or another
            if offered.at_engine is not None:
                offered = self._at_engine(claims, now, offered, offered.at_engine)
                if offered is None:
                    return  # the hostengine is being asked
            self._learn(now, offered)
        self._add_gpus_of_others()
        found = self._found
        assert found is not None
        wanted = [] if self._failed else [device.uuid for device in found.devices if device.uuid not in self._mine]
        new = claims.take(wanted)
        if not self._sample_too(new, now, late):
            return
        if self._engine is not None:
            if not late and not self._engine.samples_for_node:
                self._writer.event(
                    now, "backend", "another rank of the node samples the GPUs of all, at the hostengine"
                )
        elif len(new) < len(wanted) and not late:
            who = "none of them" if not new else f"{len(new)} of them"
            self._writer.event(now, "backend", f"{who} sampled by this rank, the others by other ranks of the node")
        self._settled = True

    def _ask(self, claims: Claims) -> BackendOffer | None:
        """Find out which GPUs and metrics this rank's backend offers, and claim these GPUs. If another rank that sees
        the same GPUs has written a note of it, no backend is opened; otherwise this rank opens one and writes the note.
        Returns None as long as that goes on, here or in the other rank. Raises OSError where claims don't work."""
        note = claims.note(self._view)
        if note is None:
            return None
        offered = (None if self._without_engine else read_offer(note)) or self._open()
        if offered is None:
            return None
        claims.take([device.uuid for device in offered.devices])  # before the others know of them
        if note == "":
            claims.write(self._view, write_offer(offered))
        self._offered = offered
        return offered

    def _at_engine(self, claims: Claims, now: float, offered: BackendOffer, engine: AtEngine) -> BackendOffer | None:
        """Return the offer with what the node's sampler measures added; None as long as that isn't known.

        Where the node's sampler could not watch the GPUs, None is returned, and each rank goes on without it.
        """
        if self._engine is None:
            from gssr.profile.sampling.engine_share import EngineShare

            rank, every = int(str(self._plan.process["rank"] or 0)), self._plan.sampling_seconds
            workloads = self._all_workloads
            self._engine = EngineShare(claims, rank, offered.devices, engine, every, lambda: len(set(workloads())))
            self._engine.look(now)
            self.by_itself = True
        told = self._engine.offer
        if told is None:
            return None
        if told.error:
            self._leave_engine(now)
            return None
        return offered._replace(
            measures=told.measures,
            sampling_seconds=told.sampling_seconds,
            remarks=[*offered.remarks, *told.remarks],
            passed_over=[*offered.passed_over, *told.passed_over],
        )

    def _leave_engine(self, now: float) -> None:
        """Give up sampling by the hostengine, so that a backend of this rank's own is opened next."""
        if self._engine is not None:
            rows, news = self._engine.close()
            self._record(now, rows, news)
        self._engine, self._offered, self._without_engine = None, None, True
        if self._backend is not None:
            self._backend.close()
            self._backend = None

    def _add_gpus_of_others(self) -> None:
        """Record the GPUs of other ranks that this one samples at the hostengine, if there are new ones."""
        new = self._engine.take_new_gpus() if self._engine is not None else ()
        if not new or self._found is None:
            return
        every = self._found.sampling_seconds or self._plan.sampling_seconds
        measured = [name for name in self._found.measures if name in self._plan.metrics]
        gpus = [gpu.device._asdict() | {"backend": self._found.backend, "rank": gpu.rank} for gpu in new]
        self._writer.add_gpus(gpus, measured, every)
        if self._textfile is not None:
            self._textfile.add_gpus([gpu.device for gpu in new], measured, every, [gpu.rank for gpu in new])

    def _do_without(self, now: float, error: OSError) -> None:
        """Go on without claims, which fail with ``error``: unless it is settled already, sample everything, as every
        other rank then does."""
        self._claims = None
        if self._settled:
            return
        why = "the ranks of this node can't agree on who samples what"
        self._writer.event(now, "backend", f"{why}: each samples all GPUs it sees ({error.strerror or error})")
        self.host = self._plan.host
        if self._offered is not None and self._offered.at_engine is not None:
            self._leave_engine(now)

    def _open(self) -> BackendOffer | None:
        """Open the backend in the background; return what it offers, with ``error`` where that fails, or None as long
        as it goes on."""
        plan = self._plan
        if self._opening is None:
            among_ranks = self._claims is not None and not self._without_engine
            how = (plan.backend, self._node, plan.visible_gpus, plan.sampling_seconds, among_ranks)
            self._opening, self._asked = BackendOpening(plan.backend, lambda: open_backend(*how)), monotonic()
        try:
            opened = self._opening.opened()
            if opened is None:
                return None
            self._opening = None
            if opened.at_engine is not None and self._claims is None:
                opened.backend.close()  # nobody can sample for the node any more
                return None
            backend = self._backend = select_gpus(opened.backend, plan.gpus)
        except BackendError as error:
            self._opening = None
            return BackendOffer(error=str(error))
        self.by_itself = opened.by_itself
        about = (opened.sampling_seconds, list(opened.remarks), list(opened.passed_over))
        gpus, measures = list(backend.gpus), list(backend.measures)
        return BackendOffer(gpus, backend.name, measures, *about, at_engine=opened.at_engine)

    def _learn(self, now: float, found: BackendOffer) -> BackendOffer:
        """Record which GPUs there are, whoever samples them, what is measured of them and what the user should know, and
        say the latter. If ``found`` is an error only that is recorded. Returns ``found``."""
        plan, writer = self._plan, self._writer
        self._found = found
        if found.error:
            self._announce(now, "backend", f"{NO_GPU}: {found.error}")
            return found
        measured = [name for name in found.measures if name in plan.metrics]
        gpus = [device._asdict() | {"backend": found.backend} for device in found.devices]
        every = found.sampling_seconds or plan.sampling_seconds
        writer.add_gpus(gpus, measured, every)
        if self._textfile is not None:
            self._textfile.add_gpus(found.devices, measured, every)
        if found.sampling_seconds is not None:
            writer.sampled_every(found.sampling_seconds)
        missing = [name for name in NAMES if name in plan.metrics and name not in measured]
        lacks = f"; not measured: {', '.join(BY_NAME[name].label for name in missing)}" if missing else ""
        what = f"{found.backend}: {len(gpus)} GPU{'s' * (len(gpus) != 1)}{lacks}"
        writer.event(now, "backend", "; ".join([what, *plan.whose(gpus), *found.remarks, *found.passed_over]))
        for remark in found.remarks:
            self._tell(remark)
        if set(SCORE_INPUTS).intersection(missing):
            why = "; ".join(["the score will be unknown, its inputs are not measured", *found.passed_over])
            self._tell(f"{found.backend}: {why}")
        return found

    def _sample_too(self, uuids: Sequence[str], now: float, late: bool = False) -> bool:
        """Sample these GPUs too from now on. False while the backend is being opened: call again then.

        ``late``: another rank sampled them before. Where they can't be taken over, that is said and they are left to
        others.
        """
        assert self._found is not None
        if uuids and self._backend is None:
            opened = self._open()
            if opened is None:
                return False
            if opened.error:
                self._announce(now, "backend_lost", f"{len(uuids)} GPUs can't be taken over: {opened.error}")
                self._give_up(uuids)
                return True
        if self._backend is None:
            return True
        self._mine.update(uuids)
        where = {gpu.uuid: place for place, gpu in enumerate(self._backend.gpus)}
        place = {device.uuid: index for index, device in enumerate(self._found.devices)}
        self._place = {where[uuid]: place[uuid] for uuid in self._mine if uuid in where}
        self._renumbered = self._place != {index: index for index in range(len(self._backend.gpus))}
        for uuid in uuids if late and self._engine is None else ():
            self._writer.event(
                now, "backend", "sampled by this rank from now on: the one before has ended", place[uuid]
            )
        if not self._mine:
            self._backend.close()  # the GPUs are sampled by others
            self._backend = None
        return True

    def _give_up(self, uuids: Sequence[str]) -> None:
        """Leave these GPUs to others, for good."""
        self._failed = True
        for uuid in uuids:
            if self._claims is not None:
                self._claims.release(uuid)
            self._mine.discard(uuid)

    def sample(self, now: float) -> None:
        """Ask the backend, and add what it says to the recording; nothing without one. A backend that fails is closed.
        ``now``: unix s."""
        if self._engine is not None:
            self._record(now, *self._engine.sample(now))
        backend = self._backend
        if backend is None:
            return
        try:
            rows, changes = backend.sample(now), backend.changes()
        except Exception as error:  # a fault in a driver's library, too, ends no more than the sampling of GPUs
            why = str(error) if isinstance(error, BackendError) else f"{backend.name} failed: {error!r}"
            self._announce(now, "backend_lost", why)
            self._backend = None
            self._keep(now, backend.close(), ())
            self._give_up(list(self._mine))
            return
        self._keep(now, rows, changes)

    def _keep(self, now: float, rows: Sequence[Row], changes: Sequence[News]) -> None:
        """Record rows and news of the backend, as far as they are of GPUs that this rank samples. Their positions in the
        backend's list are replaced by those in the recording. ``now``: unix s."""
        ours = self._place
        if self._renumbered:
            rows = [(ours[row[0]], *row[1:]) for row in rows if row[0] in ours]  # type: ignore[index]
        told = [change for change in changes if change.gpu is None or change.gpu in ours]
        self._record(now, rows, [each if each.gpu is None else each._replace(gpu=ours[each.gpu]) for each in told])

    def _record(self, now: float, rows: Sequence[Row], changes: Sequence[News]) -> None:
        """Add rows to the recording, the file for node_exporter and the watch for low scores, and record and say the
        news. Positions are those of the recording's GPUs; ``now``: unix s, the time of the events."""
        self._writer.add(rows)
        if self._textfile is not None:
            self._textfile.add(rows)
        if self.low_score is not None:
            self.low_score.add(rows)
        for change in changes:
            if isinstance(change, ProcessSnapshot):
                self._keep_processes(change, now)
                continue
            self._writer.event(now, change.kind, change.message, change.gpu)
            if change.kind != "gap":  # the reader sees that in the rows
                self._say(("" if change.gpu is None else f"{self._name_of(change.gpu)}: ") + change.message)

    def _name_of(self, position: int) -> str:
        if self._engine is not None:
            return self._engine.place_of(position)
        return f"GPU {self._found.devices[position].device_index if self._found is not None else position}"

    def _keep_processes(self, look: ProcessSnapshot, now: float) -> None:
        """Record what was seen to run on a GPU, if the plan asks for it, and publish whose pods these are, if they are
        known."""
        if self._processes is None:
            from gssr.profile.sampling.gpu_processes import GpuProcessLog

            self._processes = GpuProcessLog(self._plan, self._writer, self._all_workloads, self._say)
        self._processes.workload = self._members
        self._processes.keep(look, look.gpu, now)
        if self._textfile is not None and self._pods is not None:
            found = [self._pods.pod_of(running.pid, monotonic()) for running in look.running]
            self._textfile.see_pods(look.gpu, [pod for pod in found if pod is not None])

    def last_look(self, now: float) -> int:
        """Call ``look`` at the end of the workload, after waiting up to OPENING_SECONDS for a driver or the hostengine
        that is being asked.

        Returns how many GPUs have become ours by that.
        """
        if self._engine is not None and self._found is None:
            try:
                self._engine.wait(OPENING_SECONDS, now)
            except OSError:
                pass  # as in ``look``, which says so
            return self.look(now)
        if self._opening is None:
            return 0
        self._opening.wait(self._asked + OPENING_SECONDS - monotonic())
        return self.look(now)

    def publish(self, now: float) -> None:
        """Write the newest samples into the file for node_exporter, if that was asked for and it is time; ``now`` in
        unix s."""
        if self._textfile is not None:
            self._textfile.tick(now)

    def close(self, now: float) -> None:
        """Close the backend, add its last rows, and leave all to the other ranks.

        A backend that has never answered is said to have not.
        """
        if self._textfile is not None:
            self._textfile.remove()
        if self._opening is not None:
            what = "what another rank sampled can't be taken over" if self._settled else NO_GPU
            asked = f"{self._plan.backend}, asked {monotonic() - self._asked:.1f} s ago"
            self._announce(now, "backend", f"{what}: {asked}, has not answered by the end of the command", what)
        if self._engine is not None:
            if self._found is None:
                told = f"{NO_GPU}: the hostengine has not answered by the end of the command"
                self._announce(now, "backend", told, NO_GPU)
            self._record(now, *self._engine.close())
        backend, self._backend = self._backend, None
        if backend is not None:
            rows = backend.close()
            self._keep(now, rows, backend.changes())
        if self._claims is not None:
            self._claims.close()
            self._claims = None

    def _tell(self, text: str, subject: str | None = None) -> None:
        """Say a line if this rank speaks for the node, once for all nodes that have the same to say: see
        ``say_from_sampler``."""
        if self.host:
            say_from_sampler(self._plan, self._say, text, subject)

    def _announce(self, now: float, kind: str, message: str, subject: str | None = None) -> None:
        """Record an event and say it."""
        self._writer.event(now, kind, message)
        self._tell(message, subject)


def _view(plan: Plan) -> str:
    """Return a name for what this process sees of the node's GPUs: processes with the same name see the same GPUs."""
    words: list[object] = [plan.backend, plan.gpus, plan.visible_gpus]
    if not plan.same_for_all:
        try:
            with open("/proc/self/cgroup", encoding="utf-8") as stream:
                words += [stream.read(), os.readlink("/proc/self/ns/mnt"), *map(os.environ.get, RUNTIMES)]
        except OSError:
            words.append(os.getpid())
    return f"view-{crc32(repr(words).encode()):08x}"
