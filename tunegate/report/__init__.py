"""The report page: figures in, one self-contained HTML page or a short Markdown text out. Pure."""

from tunegate.report.page import markdown, page

__all__ = ["markdown", "page"]
