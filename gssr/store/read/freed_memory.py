"""Memory between arrays: what one gave back is for the next one."""

import numpy as np

_KEPT = 8 << 20


def keep_freed() -> None:
    """Have glibc keep memory that is freed, instead of giving it back to the kernel, which clears it page by page when the
    next array asks for it: a third of all page faults of an analysis. Once a mapping of some megabytes was freed, smaller
    blocks come from the heap, whose end is cut off only when twice as much of it is free (mallopt(3), M_MMAP_THRESHOLD: it
    adjusts itself). Elsewhere this does nothing."""
    np.empty(_KEPT, np.uint8)
