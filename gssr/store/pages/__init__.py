"""Reading the rows of a table straight from SQLite's pages into arrays, many times as fast as through SQLite.

Only of a file that is finished, and only the likes of what gssr writes: rows of numbers and NULL in an ordinary table.
Everything is checked that the file says, and where anything is out of the ordinary ``NotPlainError`` is raised: then SQLite
has to read the file. The format: https://www.sqlite.org/fileformat2.html
"""
