"""How often the verdicts are right: synthetic jobs with known causes, and what must and must not be said of them.

``hardware``, ``levels``, ``timeline``, ``job``, ``works``, the files of causes, ``jobs``, ``readings`` and ``recording`` make
the jobs. They know nothing of gssr.model: what real jobs look like is written down there, not what a rule asks for.
``measure`` alone asks the rules.
"""
