"""Real GPUs by the best way there is: DCGM, GPM or NVML; where NVIDIA's driver isn't, AMD's.

DCGM comes first where its hostengine samples profiling metrics already, and on GPUs before Hopper, which have no GPM. On
Hopper and newer GPM takes its place where the hostengine would have to begin sampling for us, or an engine be started
inside the sampler: it measures the same for about a twelfth.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from gssr.backends.backend_thread import ThreadedBackend
from gssr.backends.base import NO_DRIVER_PACKAGE, Backend, BackendError, Device, Offer, OpenedBackend

if TYPE_CHECKING:
    from gssr.backends.dcgm.dcgm_backend import DcgmBackend

_DRIVER, _LIBRARY = "NVIDIA's driver", "libnvidia-ml.so.1"

_COSTS = "8 GPUs at 10 Hz cost about 1.3 % of a core and 5 to 6 % in its engine with dcgm, 0.6 % with gpm"
"""Source: DCGM 4.6.0 and GPM in one run over a stand-in for the driver, so without the driver's own time."""


def open_best(
    spec: str, visible: Sequence[str] | None, sampling_seconds: float, among_ranks: bool = False
) -> OpenedBackend:
    """Open the best backend that works here: for NVIDIA's GPUs if there are any, else for AMD's. AMD's backend is
    opened at once where there are only AMD's GPUs, and where NVIDIA's can't be used.

    Args:
        spec: ``auto``, or ``auto:beside`` for a look at GPUs on which others work: then DCGM starts no engine, and does
            not watch the profiling counters of GPUs before Hopper, which only one at a time can have.
        visible: The GPUs that the launcher gives this process, as gssr.launch.gpu_ids returns them; None: it does not
            say.
        sampling_seconds: The interval between two samples, s.
        among_ranks: Other ranks of the run may be on this node. GPUs of a hostengine are then only listed and not
            sampled: ``at_engine`` of the result says how one of the ranks samples those of all.

    ``passed_over`` of the result says why better backends are not used, and ``remarks`` that AMD's GPUs are left out.
    Raises BackendError if no backend works.
    """
    from gssr.backends import amd

    if has_only_amd_gpus():
        return open_real("amd", visible, sampling_seconds)
    n_amd = amd.count_usable_gpus()
    if not n_amd:
        return _open_nvidias(spec, visible, sampling_seconds, among_ranks)
    try:
        opened = _open_nvidias(spec, visible, sampling_seconds, among_ranks)
    except BackendError as error:
        try:
            opened = open_real("amd", visible, sampling_seconds)
        except BackendError as amds:
            raise BackendError(f"{error}; {amds}") from None
        return opened._replace(passed_over=[*opened.passed_over, f"NVIDIA's GPUs not used: {error}"])
    has = f"this node has {n_amd} AMD GPU{'s' * (n_amd != 1)} as well, which --backend amd records"
    return opened._replace(remarks=[*opened.remarks, has])


def has_only_amd_gpus() -> bool:
    """Tell whether this machine shows AMD GPUs and has no library with which to ask for NVIDIA's."""
    from ctypes import CDLL

    from gssr.backends import amd

    if not amd.count_usable_gpus():
        return False
    try:
        CDLL(_LIBRARY)
        return False
    except OSError:
        return True


def _open_nvidias(
    spec: str, visible: Sequence[str] | None, sampling_seconds: float, among_ranks: bool
) -> OpenedBackend:
    """Open the best backend for NVIDIA's GPUs: GPM for all of them, else DCGM, else GPM or NVML for each; DCGM first if
    somebody else has it sample profiling metrics already. ``spec`` is ``auto`` or ``auto:beside``; the other arguments
    are those of ``open_best``. ``passed_over`` of the result says why better ones are not used. Raises BackendError."""
    from gssr.backends.nvml import open_gpm_of_all, open_gpm_or_nvml

    dcgm = _offer_dcgm()
    passed_over: list[str] = []
    if dcgm.works and not dcgm.profiles_already:
        try:
            opened = _open_in_thread(lambda: open_gpm_of_all(visible), sampling_seconds)
            return opened._replace(passed_over=[_explain_why_not_dcgm(dcgm), *opened.passed_over])
        except BackendError as error:
            passed_over.append(f"gpm not used: {error}")
    if dcgm.works:
        try:
            opened = open_real(spec.replace("auto", "dcgm"), visible, sampling_seconds, among_ranks)
            if dcgm.profiles_already:
                passed_over.append(_WHY_NOT_GPM)
            return opened._replace(passed_over=[*passed_over, *opened.passed_over])
        except BackendError as error:
            dcgm = dcgm._replace(works=False, details=str(error))
    opened = _open_in_thread(lambda: open_gpm_or_nvml(visible), sampling_seconds)
    return opened._replace(passed_over=[_explain_why_not_dcgm(dcgm), *opened.passed_over])


def preferred(dcgm: Offer, gpm: Offer) -> tuple[str, str]:
    """Choose between DCGM and GPM by what they offer, for pages that say what ``auto`` would take. Returns two texts:
    "dcgm" or "gpm", "" if neither works; and a sentence on why it is not the other one, "" where there is nothing to
    explain."""
    if gpm.works and dcgm.works:
        if dcgm.profiles_already:
            return "dcgm", _WHY_NOT_GPM
        if gpm.profiles:
            return "gpm", _explain_why_not_dcgm(dcgm)
    return next((offer.name for offer in (dcgm, gpm) if offer.works), ""), ""


_WHY_NOT_GPM = f"gpm not used: the hostengine samples profiling metrics already ({_COSTS})"


def _explain_why_not_dcgm(dcgm: Offer) -> str:
    """Return the sentence that says why DCGM is not used: the reason in its offer if that does not work, else that its
    engine would have to begin to sample and GPM costs less."""
    if not dcgm.works:
        return f"dcgm not used: {dcgm.details}"
    return (
        f"dcgm not used: its engine would only begin to sample profiling metrics, and gpm measures the same ({_COSTS})"
    )


def open_real(
    spec: str, visible: Sequence[str] | None, sampling_seconds: float, among_ranks: bool = False
) -> OpenedBackend:
    """Open the backend ``dcgm[:pause|:beside]``, ``gpm``, ``nvml`` or ``amd``. Raises BackendError.

    Args:
        spec: One of these.
        visible: The GPUs that the launcher gives this process, as gssr.launch.gpu_ids returns them; None: it does not
            say.
        sampling_seconds: The interval between two samples, s.
        among_ranks: Other ranks of the run may be on this node. Of ``dcgm`` the GPUs are then only listed and not
            sampled, if a hostengine runs (``OpenedBackend.at_engine``); no difference for the others.
    """
    if spec.startswith("dcgm"):
        from gssr.backends.dcgm import find_at_engine

        found = find_at_engine(spec, visible) if among_ranks else None
        if found is None:
            return _open_dcgm_with_driver(spec, visible, sampling_seconds)
        backend, without = _with_driver(found.backend)
        return found._replace(backend=backend, passed_over=without, by_itself=True)
    if spec == "amd":
        from gssr.backends.amd.amd_backend import open_amd

        return open_amd(visible)
    from gssr.backends.nvml import open_gpm, open_nvml

    return _open_in_thread(lambda: open_gpm(visible) if spec == "gpm" else open_nvml(visible), sampling_seconds)


def open_at_engine(spec: str, chosen: Mapping[str, Device], sampling_seconds: float) -> OpenedBackend:
    """Open the backend that samples the GPUs ``chosen`` by their names in the hostengine, whichever process of the node
    uses them. Raises BackendError."""
    from gssr.backends.dcgm import open_dcgm

    return _opened(open_dcgm(spec, None, sampling_seconds, chosen), sampling_seconds)


def _open_dcgm_with_driver(spec: str, visible: Sequence[str] | None, sampling_seconds: float) -> OpenedBackend:
    """Open the backend ``dcgm`` with its options in ``spec``, and ask the driver for processes and errors beside it.
    ``passed_over`` of the result says why the driver is not asked, if it can't be; DCGM is used all the same.
    ``visible``: as gssr.launch.gpu_ids returns it. Raises BackendError."""
    from gssr.backends.dcgm import open_dcgm

    opened = _opened(open_dcgm(spec, visible, sampling_seconds), sampling_seconds)
    backend, without = _with_driver(opened.backend)
    return opened._replace(backend=backend, passed_over=without)


def _opened(dcgm: DcgmBackend, sampling_seconds: float) -> OpenedBackend:
    slower = dcgm.interval if dcgm.interval > sampling_seconds else None
    return OpenedBackend(dcgm, sampling_seconds=slower, by_itself=True)


def _open_in_thread(opener: Callable[[], OpenedBackend], sampling_seconds: float) -> OpenedBackend:
    """Open a backend in a thread of its own, so that a driver that does not return holds up no sample."""
    backend = ThreadedBackend(_DRIVER, opener, sampling_seconds)
    return backend.opened._replace(backend=backend, by_itself=True)


def _with_driver(backend: Backend) -> tuple[Backend, Sequence[str]]:
    """Add NVIDIA's driver, which is asked for processes and errors, to a backend. Returns the backend to use, and no
    sentence; or, where the driver cannot be used, the given backend and a sentence that says why."""
    try:
        from gssr.backends.driver_events import WithDriver

        return WithDriver(backend), ()
    except BackendError as error:
        return backend, [f"processes on the GPUs and their errors are not looked for: {error}"]


def offers(try_out: bool = False) -> list[Offer]:
    """Find out what each backend for real GPUs offers here: dcgm, gpm, nvml and amd, in this order. May take seconds,
    and a broken driver may never return. ``try_out``: look also for what a recording through DCGM would lack."""
    from gssr.backends import amd

    try:
        from gssr.backends.nvml import offer_gpm, offer_nvml
    except ModuleNotFoundError:
        nvidias = [Offer(name, False, *NO_DRIVER_PACKAGE) for name in ("dcgm", "gpm", "nvml")]
        return [*nvidias, amd.offer()]
    return [_offer_dcgm(try_out), offer_gpm(), offer_nvml(), amd.offer()]


def _offer_dcgm(try_out: bool = False) -> Offer:
    from gssr.backends.dcgm import offer

    return offer(try_out)
