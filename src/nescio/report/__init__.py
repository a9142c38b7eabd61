"""Records as tables, figures, words and pages; nothing here imports torch.

Public names are loaded on first use, since matplotlib takes its time.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nescio.report.audit import audit_figure, audit_words
    from nescio.report.comparison_figures import (
        attacked_figure,
        confidence_figure,
        rejection_figure,
        roc_figure,
    )
    from nescio.report.decision import decision_words
    from nescio.report.feature_audit import feature_figure, feature_table, feature_words
    from nescio.report.figures import (
        COLOURS,
        despine,
        line_style,
        plot_text,
        save_figure,
        title_left,
        with_legend,
    )
    from nescio.report.gallery import gallery_figure
    from nescio.report.html import details, figure, heading, items, paragraphs
    from nescio.report.maps import map_figure
    from nescio.report.meta import weights_figure, weights_table
    from nescio.report.page import SECTIONS, Section, report_page, write_report
    from nescio.report.ranking import recommendation_table, recommendation_words
    from nescio.report.records import ReportContext, records_in
    from nescio.report.regions import regions_figure
    from nescio.report.runs import of_score, side_of
    from nescio.report.table import (
        Cell,
        Percent,
        Styled,
        Table,
        format_number,
        join,
        save_markdown,
        seconds_cell,
    )
    from nescio.report.words import describe_attack

__all__ = ["COLOURS", "SECTIONS", "Cell", "Percent", "ReportContext", "Section", "Styled", "Table"]
__all__ += ["attacked_figure", "audit_figure", "audit_words", "confidence_figure", "decision_words"]
__all__ += ["describe_attack", "despine", "details", "feature_figure", "feature_table"]
__all__ += [
    "feature_words",
    "figure",
    "format_number",
    "gallery_figure",
    "heading",
    "items",
    "join",
    "line_style",
]
__all__ += ["map_figure", "of_score", "paragraphs", "plot_text", "recommendation_table"]
__all__ += ["recommendation_words", "records_in", "regions_figure", "rejection_figure"]
__all__ += ["report_page", "roc_figure", "save_figure", "save_markdown", "seconds_cell", "side_of"]
__all__ += ["title_left", "weights_figure", "weights_table", "with_legend", "write_report"]

# searched in order for a public name
_HOMES = ["table", "figures", "html", "records", "runs", "audit", "comparison_figures", "gallery"]
_HOMES += ["maps", "meta", "regions", "page", "decision", "feature_audit", "ranking", "words"]


def __getattr__(name: str) -> Any:
    for home in _HOMES if name in __all__ else ():
        if name in (found := vars(import_module(f"nescio.report.{home}"))):
            globals()[name] = found[name]
            return found[name]
    raise AttributeError(f"module 'nescio.report' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
