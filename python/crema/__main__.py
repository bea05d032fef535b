"""``python -m crema``: the command, where its script is not on the path."""

from .read.command import main

if __name__ == "__main__":
    main(prog_name="crema")
