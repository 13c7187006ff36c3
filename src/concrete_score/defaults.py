"""Defaults that the library uses and the command line's help states, in a module that imports nothing."""

VALID_FRACTION = 0.1
"""The share of rows held out where no held-out rows are given."""
MAX_CATEGORIES = 256
"""The most values a column of categories may take."""
MISSING = ("unobserved", "drop", "category", "refuse")
"""Blank cells: count them as not observed; drop their rows; make them a category when fitted; refuse them with a count.
"""
UNKNOWN = ("refuse", "skip")
"""Values never seen in training: refuse them by name, or skip their rows."""
LEVELS, MAX_LEVELS = 2, 256
"""Grey levels of images, and the most there may be."""
THRESHOLD = 0.5
"""Above which share of the largest grey value a pixel is white, where there are two levels."""
MODEL, OBJECTIVE = "made", "maximum_likelihood"
"""What learns a table."""
IMAGE_MODEL, IMAGE_OBJECTIVE = "unet", "clean_value"
"""What learns images."""
BATCH_SIZE = 128
"""Rows of one training step."""
LR, IMAGE_LR = 2e-3, 1e-3
"""Adam's rate at the start, for tables and for images."""
ROUNDS, LEAST_STEPS, MOST_STEPS = 40, 2_000, 10_000
"""How often each row is looked at, and the steps this may come to."""
TOP = 3
"""How many changes of a row are explained."""
BOUND_ROWS = 500
"""Of how many rows a likelihood is bounded where it is not exact."""
