"""The report as a PDF of two to four A4 pages for each run, for a project proposal or a ticket."""
