"""A table of numbers and categories whose law is known, to draw honest and dishonest tables from."""

import numpy as np
import polars as pl


def rows(random, n):
    """``n`` independent rows: two numbers that go together, a fine one, and two categories."""
    z, group = random.normal(size=n), random.integers(0, 3, n)
    return pl.DataFrame(
        {
            "age": np.floor(40 + 12 * z + 3 * random.normal(size=n)),
            "pay": np.round(np.exp(z + 0.5 * random.normal(size=n) + 0.3 * group), 2),
            "score": np.round(z + random.normal(size=n), 1),
            "group": np.array(["a", "b", "c"])[group],
            "sex": np.where(z > random.normal(size=n), "f", "m"),
        }
    )


def planted(random, honest, real, share=0.05):
    """An honest table in which some rows are replaced by copies of real ones."""
    count = int(share * len(honest))
    return pl.concat([honest[count:], real[random.choice(len(real), count, replace=False)]])


def draws(seed, real=800, synthetic=800, holdout=800):
    """Real, synthetic and held-out rows of one law, and the randomness that drew them."""
    random = np.random.default_rng([seed, 7])
    return (*(rows(random, n) for n in (real, synthetic, holdout)), random)
