"""`python -m schedbench`."""

from schedbench.cli.main import main

if __name__ == "__main__":
    main()
