"""``python -m concrete_score`` is ``csm``."""

import os
import sys

# Python puts the working directory first: a file called like a library must not be imported from there.
if not sys.flags.safe_path and sys.path[:1] in ([""], [os.getcwd()]):
    del sys.path[0]

from concrete_score.cli.main import main

if __name__ == "__main__":
    main()
