"""`python -m turnabout.cli`."""

from turnabout.cli import main

if __name__ == "__main__":
    main()
