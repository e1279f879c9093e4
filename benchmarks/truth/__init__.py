"""How often the verdicts are right: synthetic jobs with known causes, and what must and must not be said of them.

``jobs`` lists them; what they are made of and how they are recorded is in the modules beside it. These know nothing of
gssr.model: what real jobs look like is written down there, not what a rule asks for. ``measure`` alone asks the rules.
"""
