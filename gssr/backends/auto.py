"""Real GPUs by the best way there is: DCGM, else GPM, else NVML."""

from collections.abc import Callable, Sequence

from gssr.backends.aside import Aside
from gssr.backends.base import BackendError, Offer, Opened

_DRIVER = "NVIDIA's driver"


def open_best(visible: Sequence[str] | None, sampling_seconds: float) -> Opened:
    """The best backend that works here, and why each better one is passed over. Raises BackendError when none does."""
    found = _offer_dcgm()
    if found.works:
        try:
            return open_real("dcgm", visible, sampling_seconds)
        except BackendError as error:
            found = found._replace(details=str(error))
    from gssr.backends.nvml import open_gpm_or_nvml

    opened = _aside(lambda: open_gpm_or_nvml(visible), sampling_seconds)
    return opened._replace(passed_over=[f"dcgm not used: {found.details}", *opened.passed_over])


def open_real(spec: str, visible: Sequence[str] | None, sampling_seconds: float) -> Opened:
    """The backend ``dcgm[:pause]``, ``gpm`` or ``nvml``. Raises BackendError."""
    if spec.startswith("dcgm"):
        from gssr.backends.dcgm import open_dcgm

        backend = open_dcgm(spec, visible, sampling_seconds)
        slower = backend.interval if backend.interval > sampling_seconds else None
        return Opened(backend, sampling_seconds=slower, by_itself=True)
    from gssr.backends.nvml import open_gpm, open_nvml

    return _aside(lambda: open_gpm(visible) if spec == "gpm" else open_nvml(visible), sampling_seconds)


def _aside(opener: Callable[[], Opened], sampling_seconds: float) -> Opened:
    backend = Aside(_DRIVER, opener, sampling_seconds)
    return backend.opened._replace(backend=backend, by_itself=True)


def offers() -> list[Offer]:
    """What each backend for real GPUs has to give here, best first. May take seconds, and a broken driver may never
    return."""
    from gssr.backends.nvml import offer_gpm, offer_nvml

    return [_offer_dcgm(), offer_gpm(), offer_nvml()]


def _offer_dcgm() -> Offer:
    from gssr.backends.dcgm import offer

    return offer()
