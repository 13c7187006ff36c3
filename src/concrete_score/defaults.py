"""Defaults that the library uses and the command line's help states, in a module that imports nothing."""

VALID_FRACTION = 0.1
"""The share of rows held out where no held-out rows are given."""
MOST_HELD_OUT = 10_000
"""Rows held out at most, where no share is asked for: more would tell little, and take as long as learning."""
MAX_CATEGORIES = 256
"""The most values a column of categories may take."""
MAX_CODES = 20
"""Whole numbers of more different values than this are numbers, not categories."""
MISSING = ("unobserved", "drop", "category", "refuse")
"""Blank cells: count them as unobserved; drop their rows; make them a category in training; refuse them."""
UNKNOWN = ("reserve", "refuse", "skip")
"""Values never seen in training: score them by the probability reserved for them; refuse them; skip their rows."""
FILLS = ("mean", "median", "mode")
"""What fills a blank number or date: of its distribution given the other cells."""
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
MOST_WORK = 5 * 10**11
"""Rows that are looked at, times a network's units and the values of all columns: a few minutes of one processor."""
TOP = 3
"""How many changes of a row are explained."""
BOUND_ROWS = 500
"""Of how many rows a likelihood is bounded where it is not exact."""
