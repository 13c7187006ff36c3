"""How the site is built (``make docs``): from the repository alone, every notebook executed, nothing fetched."""

import os
import sys
from pathlib import Path

from concrete_score import __version__

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))
# Cells call `csm`, which lies beside this Python; one thread each, for pages are executed side by side.
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["COLUMNS"] = "100"

project = "concrete-score"
author = "The concrete-score developers"
project_copyright = author
release = version = __version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_click",
    "sphinx_copybutton",
    "sphinx_design",
    "mathml",
    "generated_pages",
    "joined_streams",
    "repository_links",
    "side_by_side",
]
exclude_patterns = ["_ext", "_static", "README.md"]

# Pages
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath", "attrs_inline"]
myst_heading_anchors = 3
nb_execution_mode = "force"
nb_execution_in_temp = True
nb_execution_timeout = 300
nb_merge_streams = True
nb_execution_raise_on_error = True
nb_output_stderr = "remove-warn"  # a page on which something is complained about is not built
nb_number_source_lines = False
suppress_warnings = [
    "myst-nb.lexer",  # which language cells are in: only a kernel says so, and a quick build starts none
    "ref.python",  # one class under two of its public names, in an annotation
]

# Reference
default_role = "py:obj"
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_default_options = {"members": True}
autodoc_inherit_docstrings = False
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
napoleon_numpy_docstring = False
napoleon_use_rtype = False
napoleon_attr_annotations = False
add_module_names = False

# Looks
html_theme = "furo"
html_title = "concrete-score"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#14599c", "color-brand-content": "#14599c"},
    "dark_css_variables": {"color-brand-primary": "#7db7f0", "color-brand-content": "#7db7f0"},
}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
