"""`python -m duramen`: the same as the command `duramen`."""

from duramen.cli import main

if __name__ == "__main__":
    main()
