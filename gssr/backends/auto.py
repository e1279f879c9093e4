"""Real GPUs by the best way there is: DCGM, else GPM, else NVML; where NVIDIA's driver isn't, AMD's."""

from collections.abc import Callable, Sequence

from gssr.backends.aside import Aside
from gssr.backends.base import Backend, BackendError, Offer, Opened

_DRIVER, _LIBRARY = "NVIDIA's driver", "libnvidia-ml.so.1"


def open_best(spec: str, visible: Sequence[str] | None, sampling_seconds: float) -> Opened:
    """The best backend that works here, and why each better one is passed over: of ``auto:beside`` none that takes something
    from others. Raises BackendError when none does."""
    from gssr.backends import amd

    if is_amds():
        return open_real("amd", visible, sampling_seconds)
    n_amd = amd.shown()
    if not n_amd:
        return _open_nvidias(spec, visible, sampling_seconds)
    try:
        opened = _open_nvidias(spec, visible, sampling_seconds)
    except BackendError as error:
        try:
            opened = open_real("amd", visible, sampling_seconds)
        except BackendError as amds:
            raise BackendError(f"{error}; {amds}") from None
        return opened._replace(passed_over=[*opened.passed_over, f"NVIDIA's GPUs not used: {error}"])
    has = f"this node has {n_amd} AMD GPU{'s' * (n_amd != 1)} as well, which --backend amd records"
    return opened._replace(remarks=[*opened.remarks, has])


def is_amds() -> bool:
    """Whether there are AMD's GPUs, and nothing to ask for NVIDIA's."""
    from ctypes import CDLL

    from gssr.backends import amd

    if not amd.shown():
        return False
    try:
        CDLL(_LIBRARY)
        return False
    except OSError:
        return True


def _open_nvidias(spec: str, visible: Sequence[str] | None, sampling_seconds: float) -> Opened:
    found = _offer_dcgm()
    if found.works:
        try:
            return open_real(spec.replace("auto", "dcgm"), visible, sampling_seconds)
        except BackendError as error:
            found = found._replace(details=str(error))
    from gssr.backends.nvml import open_gpm_or_nvml

    opened = _aside(lambda: open_gpm_or_nvml(visible), sampling_seconds)
    return opened._replace(passed_over=[f"dcgm not used: {found.details}", *opened.passed_over])


def open_real(spec: str, visible: Sequence[str] | None, sampling_seconds: float) -> Opened:
    """The backend ``dcgm[:pause|:beside]``, ``gpm``, ``nvml`` or ``amd``. Raises BackendError."""
    if spec.startswith("dcgm"):
        from gssr.backends.dcgm import open_dcgm

        dcgm = open_dcgm(spec, visible, sampling_seconds)
        slower = dcgm.interval if dcgm.interval > sampling_seconds else None
        backend, without = _with_driver(dcgm)
        return Opened(backend, sampling_seconds=slower, passed_over=without, by_itself=True)
    if spec == "amd":
        from gssr.backends.amd.backend import open_amd

        return open_amd(visible)
    from gssr.backends.nvml import open_gpm, open_nvml

    return _aside(lambda: open_gpm(visible) if spec == "gpm" else open_nvml(visible), sampling_seconds)


def _aside(opener: Callable[[], Opened], sampling_seconds: float) -> Opened:
    backend = Aside(_DRIVER, opener, sampling_seconds)
    return backend.opened._replace(backend=backend, by_itself=True)


def _with_driver(backend: Backend) -> tuple[Backend, Sequence[str]]:
    """The backend, with the driver beside it; where that can't be used, why."""
    try:
        from gssr.backends.beside import WithDriver

        return WithDriver(backend), ()
    except BackendError as error:
        return backend, [f"processes on the GPUs and their errors are not looked for: {error}"]


def offers() -> list[Offer]:
    """What each backend for real GPUs has to give here, best first. May take seconds, and a broken driver may never
    return."""
    from gssr.backends import amd
    from gssr.backends.nvml import offer_gpm, offer_nvml

    return [_offer_dcgm(), offer_gpm(), offer_nvml(), amd.offer()]


def _offer_dcgm() -> Offer:
    from gssr.backends.dcgm import offer

    return offer()
