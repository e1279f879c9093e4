"""Read a trace and split its time with HolisticTraceAnalysis, as its notebook does: ``python with_hta.py FILE``, where it is
installed."""

import sys

from hta.trace_analysis import TraceAnalysis

analysis = TraceAnalysis(trace_files={0: sys.argv[1]}, trace_dir="/")
print(analysis.get_temporal_breakdown(visualize=False))
print(analysis.get_comm_comp_overlap(visualize=False))
