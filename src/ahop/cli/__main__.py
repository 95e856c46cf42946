"""`python -m ahop.cli` is the command `ahop`."""

from ahop.cli import main

if __name__ == "__main__":
    main()
