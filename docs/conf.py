"""How the documentation is built: no network, warnings are errors, the gallery runs."""

import os
import re
import sys
from pathlib import Path

os.environ.setdefault("MPLBACKEND", "Agg")

from sphinx.application import Sphinx

import ahop

project = "ahop"
author = "The ahop developers"
copyright = author  # noqa: A001 - Sphinx's own name for it
version = release = ahop.__version__

sys.path.insert(0, str(Path(__file__).parent))  # for the extensions of this folder
extensions = [
    "drawn",
    "mathml",
    "notebooks",
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "tutorial/notebooks"]
root_doc = "index"

myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

# Reference: the names people type, in the order of the pages; a subclass does not repeat what its base says.
autodoc_class_signature = "mixed"
autodoc_default_options = {"member-order": "bysource"}
autodoc_inherit_docstrings = False
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
add_module_names = False
python_maximum_signature_line_length = 130
napoleon_numpy_docstring = False
napoleon_attr_annotations = False
napoleon_use_ivar = True
napoleon_custom_sections = ["Paper"]

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "write_computation_times": False,
    "show_memory": False,
    "min_reported_time": 1e9,
    "download_all_examples": False,
    "remove_config_comments": True,
}

html_math_renderer = "mathml"
html_theme = "pydata_sphinx_theme"
html_title = "ahop"
html_static_path = ["_static"]
html_css_files = ["house.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "show_prev_next": True,
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "navbar_align": "left",
    "header_links_before_dropdown": 7,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_context = {"default_mode": "auto"}

# The docstrings are written as people read them: `$...$` for a formula, single backticks for code, and the paper's
# own labels in brackets. Sphinx wants roles.
MATH = re.compile(r"(\w)?\$([^$]+)\$(\w)?")
CODE = re.compile(r"(?<![`:\w])`([^`\n]+)`(?![`_])")
LABEL = re.compile(r"\[((?:apd|def|eqn|fig|lem|sec|tab|thm):[\w:-]+)\]")
FITTED = re.compile(r"^(\s+\w*[^\W_])_:", re.MULTILINE)
PUBLIC = set(ahop.__all__) - {"zoo"}


def _math(match: re.Match[str]) -> str:
    before, formula, after = match.groups()
    opening = f"{before}\\ " if before else ""
    closing = f"\\ {after}" if after else ""
    return f"{opening}:math:`{' '.join(formula.split())}`{closing}"


def _code(match: re.Match[str]) -> str:
    code = match.group(1)
    return f":py:obj:`~ahop.{code}`" if code in PUBLIC else f"``{code}``"


def as_roles(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Rewrite a docstring in place, before napoleon reads its sections."""
    text = CODE.sub(_code, "\n".join(lines))
    # A formula that runs over the end of a line becomes one line, so that its section keeps its indentation.
    text = MATH.sub(_math, text)
    text = FITTED.sub(r"\1\\_:", text)  # else `classes_` is taken for a link
    lines[:] = LABEL.sub(r":doc:`[\1] </paper/map>`", text).split("\n")


def plain_signature(
    app: Sphinx, what: str, name: str, obj: object, options: object, signature: str | None, returns: str | None
) -> tuple[str | None, str | None]:
    """Arrays by their short names, and no arguments where torch only passes them on."""
    if signature == "(*args: ~typing.Any, **kwargs: ~typing.Any)":
        signature = "()"
    return _short(signature), _short(returns)


def _short(text: str | None) -> str | None:
    return None if text is None else re.sub(r"(~?numpy\.)?ndarray\[.*?dtype\[[^\]]*\]\]", "ndarray", text)


def setup(app: Sphinx) -> None:
    app.connect("autodoc-process-docstring", as_roles, priority=400)
    app.connect("autodoc-process-signature", plain_signature)
