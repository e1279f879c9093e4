"""A second simulator of jobs whose causes are known, by another method: programs are simulated, not phases drawn.

``unseen_job`` draws a job by its seed and ``UnseenJob.write`` records it; ``comparable`` merges what a view can not tell
apart. ``programs`` has the programs: ranks that compute, fetch, copy and meet in collectives, stages of pipelines that need
each other's micro-batches, workers that fill queues; ``timeline`` carries them out, so that who waits for whom follows from
what each does, and keeps the books; ``recorders`` integrate over it as real ones do. Healthy programs are in ``healthy``,
planted causes in ``causes_single`` and ``causes_parallel``. Its author has seen neither the account of GPU time and its
verdicts, nor their thresholds, nor the jobs that they were developed on: only the tree of categories and the codes.
"""

from tests.fakes.unseen_jobs.job import UnseenJob, comparable, unseen_job

__all__ = ["UnseenJob", "comparable", "unseen_job"]
