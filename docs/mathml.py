"""Formulas as MathML, written when the docs are built: browsers show it with no script and no network."""

import re
from typing import Literal

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number
from sphinx.writers.html5 import HTML5Translator

logger = logging.getLogger(__name__)
UNKNOWN = {r"\arg": r"\operatorname{arg}", r"\_": "_"}  # to the converter, by what it knows
FUNCTION = re.compile(r"<mi>(?:log|ln)</mi>(?!</|<mo)")  # "log x" has a space, and "log(x)" has none


def mathml(node: nodes.math | nodes.math_block, display: Literal["inline", "block"] = "inline") -> str:
    formula = node.astext()
    for word, known in UNKNOWN.items():
        formula = formula.replace(word, known)
    written = FUNCTION.sub(r'\g<0><mspace width="0.17em" />', convert(formula, display=display))
    if "\\" in written:
        logger.warning("not all of this formula is understood: %s", formula, location=node)
    return written


def visit_math(writer: HTML5Translator, node: nodes.math) -> None:
    writer.body.append(mathml(node))
    raise nodes.SkipNode


def visit_displaymath(writer: HTML5Translator, node: nodes.math_block) -> None:
    writer.body.append(writer.starttag(node, "div", CLASS="formula", TABINDEX="0"))
    if node["number"]:
        writer.body.append(f'<span class="eqno">({get_node_equation_number(writer, node)})</span>')
    writer.body.append(mathml(node, "block") + "</div>\n")
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_displaymath, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
