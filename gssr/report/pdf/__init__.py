"""The report as a PDF of A4 pages, for a project proposal or a ticket."""
