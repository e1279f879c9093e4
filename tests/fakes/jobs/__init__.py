"""Simulated GPU jobs whose causes are known: what examines the diagnosis.

A job is simulated from what its GPUs do in each step (``phases``, ``job``, ``causes``, ``healthy``), read by samplers as
real ones would (``samplers``), labelled by what each cause costs (``labels``), and written as a recording (``write``).
Nothing here knows the rules that it examines.
"""
