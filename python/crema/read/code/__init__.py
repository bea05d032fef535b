"""The lines of the user's code: their seconds, their text, and their stacks for other programs."""
