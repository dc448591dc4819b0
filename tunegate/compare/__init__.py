"""Rows of the columns -> the figures of `report.json`: by class and slice, intervals, paired tests.

Pure. Every row of every slice is counted once in every column, or nothing is reported.
"""

from tunegate.compare.report import compare, index_rows

__all__ = ["compare", "index_rows"]
