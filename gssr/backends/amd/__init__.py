"""AMD's GPUs, as the amdgpu driver shows them in sysfs: no library, no daemon, no root. What they tell, and what not, is in
docs/amd.md. Untested on hardware."""

from gssr.backends.amd import cards
from gssr.backends.base import BackendError, Offer, UnusableError

UNTESTED = "untested on hardware"


def count_usable_gpus() -> int:
    """Count the AMD GPUs that this machine shows and that are no integrated graphics, whether or not this process may
    use them."""
    return sum(not card.is_integrated for card in cards.find_cards())


def offer() -> Offer:
    """Find out which GPUs AMD's driver shows, and whether this process may use them. Where it may not, the offer says
    why."""
    try:
        own, *_ = cards.usable_cards(None)
    except UnusableError as error:
        return Offer("amd", False, error.what, error.cure)
    except BackendError as error:
        return Offer("amd", False, str(error))
    if all(card.is_integrated for card in own):
        return Offer("amd", False, "the amdgpu driver shows integrated graphics only", "run on a node with AMD GPUs")
    names = ", ".join(sorted({card.device.name or "unknown" for card in own}))
    driver = own[0].device.driver_version or "unknown"
    n = f"{len(own)} GPU{'s' * (len(own) != 1)}"
    return Offer("amd", True, f"{n} ({names}), driver {driver}, {UNTESTED}")
