"""The categories of GPU time: one table that rules, pages, screens and docs read."""

from typing import NamedTuple


class Category(NamedTuple):
    """One place where GPU time can go. ``name``: in JSON, a branch and a leaf. ``label``: for people. ``is_loss``: whether it is
    time in which the GPU could have worked. ``ordinary``: the share that healthy jobs have as well; above it a loss is warned
    about. ``source``: where that share comes from."""

    name: str
    label: str
    is_loss: bool
    ordinary: float = 0.05
    source: str = ""

    @property
    def branch(self) -> str:
        """Its top-level category: "idle" of "idle.copies"."""
        return self.name.partition(".")[0]


CATEGORIES: tuple[Category, ...] = (
    Category("working.tensor", "computes on tensor cores", False),
    Category("working.fp64", "computes in FP64", False),
    Category("working.memory", "works, limited by its memory", False),
    Category("working.other", "works", False),
    Category("working.few_sms", "runs small kernels on few SMs", True),
    Category("working.slowed", "lost to lower clocks", True),
    Category("communication.transferring", "communicates", True, 0.1, "simulated healthy jobs of several kinds reach 10 %"),
    Category("communication.waiting", "waits in communication kernels", True),
    Category("idle.between_kernels", "idle between kernels", True, 0.16, "healthy CFD 10 %, MD 6 %, serving 14-16 %"),
    Category("idle.imbalance", "idle while other GPUs work", True),
    Category("idle.input_output", "idle while files or the network are read or written", True),
    Category("idle.copies", "idle while data is copied to or from the host", True),
    Category("idle.host", "idle while the CPU computes", True),
    Category("idle.unexplained", "idle, no cause found", True, 0.1, "healthy bursty serving idles up to 15 %, most of it in short gaps"),
    Category("startup", "before the first work", False),
    Category("end", "after the last work", False),
    Category("unused", "GPUs that did nothing", True),
    Category("unmeasured", "not measured", False),
)
"""In the order in which bars are drawn: work first, then what is lost, then what lies outside the job's work."""

POSITIONS = {category.name: position for position, category in enumerate(CATEGORIES)}
BRANCHES = tuple(dict.fromkeys(category.branch for category in CATEGORIES))
