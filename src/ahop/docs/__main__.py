"""`python -m ahop.docs` lists the pages of the guide, `python -m ahop.docs saving` shows one."""

import sys

from ahop.docs.guide import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
