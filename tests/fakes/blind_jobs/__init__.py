"""A second examination of what is said about GPU jobs, by a hand that knows neither how they are judged nor the jobs that
the judging was developed on.

``blind_job`` draws a job by its seed and ``BlindJob.write`` records it; ``comparable`` merges what a view can not tell
apart. Phases (``phases``) of every GPU follow each other in continuous time (``schedule``), from which the books are kept;
recorders (``recorders``) sample it as real ones do. Healthy programs are in ``healthy``, planted causes in ``sick_input``,
``sick_parallel`` and ``sick_device``: each kind's docstring tells the physics, and why its codes are right.
"""

from tests.fakes.blind_jobs import sick_device, sick_input, sick_parallel
from tests.fakes.blind_jobs.job import BlindJob, blind_job, comparable

__all__ = ["BlindJob", "blind_job", "comparable", "sick_device", "sick_input", "sick_parallel"]
