"""An examination of what is said about GPU jobs: simulated jobs with books of where their GPU time went.

``examined_job`` draws a job by its seed and ``ExaminedJob.write`` records it. The labels follow from the simulated physics;
nothing here knows how the recordings are judged.
"""

from tests.fakes.examined_jobs.job import ExaminedJob, comparable, examined_job

__all__ = ["ExaminedJob", "comparable", "examined_job"]
