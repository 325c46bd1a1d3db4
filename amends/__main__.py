"""`python -m amends` is `amends`."""

from amends.cli import main

if __name__ == "__main__":
    main()
