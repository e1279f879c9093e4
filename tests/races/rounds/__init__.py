"""Jobs that start together under one name, tried for real: is each of them recorded whole, or refused whole?"""
