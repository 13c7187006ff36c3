"""Ordinary files, each as people write them: fitted with no option, sampled in kind, filled with nothing lost."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

SMALL = ("--steps", "4", "--set", "model.hidden=8", "--quiet")
ROWS = 120


def cells(write, seed=0):
    rng = np.random.default_rng(seed)
    return [write(k, rng) for k in range(ROWS)]


DAYS = [f"2024-{1 + k % 12:02d}-{1 + k % 28:02d}" for k in range(ROWS)]
FILES = {
    "plain.csv": {
        "id": cells(lambda k, rng: f"P{k:04d}"),
        "same": ["k"] * ROWS,
        "none": [""] * ROWS,
        "size": cells(lambda k, rng: f"{rng.normal():.2f}"),
        "count": cells(lambda k, rng: str(rng.poisson(40))),
        "kind": cells(lambda k, rng: "abc"[rng.integers(3)]),
        "truth": cells(lambda k, rng: str(bool(rng.integers(2)))),
    },
    "blank.csv": {
        "a": cells(lambda k, rng: "" if k % 5 == 0 else f"{rng.normal():.1f}"),
        "b": cells(lambda k, rng: "NA" if k % 7 == 0 else "xy"[k % 2]),
    },
    "dates.csv": {
        "day": DAYS,
        "us": cells(lambda k, rng: f"{1 + k % 12}/{1 + k % 28}/2024"),
        "time": cells(lambda k, rng: f"{k % 24:02d}:{k % 60:02d}:00"),
        "noon": cells(lambda k, rng: f"{1 + k % 12}:{k % 60:02d} {'AP'[k % 2]}M"),
        "zone": cells(lambda k, rng: f"{DAYS[k]}T{k % 24:02d}:00:00+02:00"),
        "short": cells(lambda k, rng: f"{1 + k % 28:02d}-Sep-{k % 20:02d}"),
        "number": cells(lambda k, rng: DAYS[k].replace("-", "")),
    },
    "two.csv": {"day": [d if k % 3 else f"{d[8:]}.{d[5:7]}.{d[:4]}" for k, d in enumerate(DAYS)], "b": ["x", "y"] * 60},
    "money.csv": {
        "price": cells(lambda k, rng: f"${rng.integers(1, 10**7) / 100:,.2f}"),
        "share": cells(lambda k, rng: f"{100 * rng.random():.1f}%"),
        "length": cells(lambda k, rng: f"{rng.integers(20, 200)} min"),
        "people": cells(lambda k, rng: f"{rng.integers(10**6):,}"),
    },
    "word.csv": {"a": ["broken", "inf", *(f"{k / 8}" for k in range(ROWS - 2))], "b": ["x", "y"] * 60},
    "code.csv": {
        "zip": cells(lambda k, rng: f"{rng.choice([1234, 2138, 90210]):05d}"),
        "long": cells(lambda k, rng: str(2**63 + 1000 * int(rng.integers(9)))),
        "row": [str(k) for k in range(ROWS)],
    },
    "odd.csv": {
        "na\u00efve \u540d": cells(lambda k, rng: ["\u00e9", "\u65e5\u672c", "two\nlines", 'say "hi"'][k % 4]),
        "note": cells(lambda k, rng: f"text {k // 2}, {'word ' * 40}"),
        "": [str(k % 3) for k in range(ROWS)],
        "tiny": cells(lambda k, rng: f"{rng.normal() * 1e-9:.3e}"),
        "exact": cells(lambda k, rng: f"{rng.random():.17f}"),
    },
    "wide.csv": {f"v{d}": cells(lambda k, rng: f"{rng.normal():.3f}", d) for d in range(60)},
}


def written(name, columns, folder):
    path = folder / name
    pl.DataFrame({f"{d}": cells for d, cells in enumerate(columns.values())}).pipe(
        lambda table: pl.concat([pl.DataFrame({f"{d}": [key] for d, key in enumerate(columns)}), table])
    ).write_csv(path, include_header=False)
    return path


def texts(path):
    return pd.read_csv(path, dtype=str, keep_default_na=False)


def kinds(path):
    """What pandas takes each column for; numbers of either kind are alike beside blanks."""
    return [{"i": "number", "f": "number"}.get(kind.kind, kind.kind) for kind in pd.read_csv(path).dtypes]


@pytest.fixture
def fitted(csm, tmp_path):
    def call(path, *options):
        code, _, err = csm("fit", str(path), "--out", str(tmp_path / "run"), *SMALL, *options)
        assert code == 0, err
        drawn, filled = tmp_path / "drawn.csv", tmp_path / "filled.csv"
        assert csm("sample", str(tmp_path / "run"), "-n", "60", "--out", str(drawn), "--quiet").code == 0
        assert csm("impute", str(tmp_path / "run"), str(path), "--out", str(filled), "--quiet").code == 0
        return drawn, filled

    return call


@pytest.mark.parametrize("name", FILES)
def test_a_file_as_it_comes_is_fitted_sampled_in_kind_and_filled(name, fitted, tmp_path):
    path = written(name, FILES[name], tmp_path)
    drawn, filled = fitted(path)
    unnamed = [key or f"column_{d + 1}" for d, key in enumerate(FILES[name])]
    assert list(texts(drawn).columns) == list(texts(filled).columns) == unnamed
    stray = {"word.csv": [0]}.get(name, [])  # two words make text of the numbers in the file, not in the draws
    blank = [d for d, cells in enumerate(FILES[name].values()) if not any(cells)]
    pairs = list(zip(kinds(path), kinds(drawn), strict=True))
    assert all(one == other for d, (one, other) in enumerate(pairs) if d not in stray + blank)
    was, now = (texts(each).to_numpy() for each in (path, filled))
    seen = ~np.isin(was, ["", "NA"])
    assert (was[seen] == now[seen]).all()
    assert not np.isin(np.delete(now, blank, 1), ["", "NA"]).any()


def test_dates_and_amounts_are_drawn_as_they_are_written(fitted, tmp_path):
    drawn = texts(fitted(written("dates.csv", FILES["dates.csv"], tmp_path))[0])
    assert drawn["us"].str.fullmatch(r"[1-9]\d?/[1-9]\d?/\d{4}").all()
    assert drawn["noon"].str.fullmatch(r"[1-9]\d?:\d\d [AP]M").all()
    assert drawn["zone"].str.endswith("+02:00").all()
    assert pd.to_datetime(drawn["number"], format="%Y%m%d").dt.year.between(2023, 2025).all()
    assert pd.to_datetime(drawn["short"], format="%d-%b-%y").notna().all()


def test_a_file_of_semicolons_commas_and_old_letters(fitted, tmp_path):
    path = tmp_path / "old.csv"
    lines = [f"Cura\u00e7ao {k % 3};{k / 8:.3f};{k % 2}".replace(".", ",") for k in range(ROWS)]
    path.write_text("\n".join(["place;size;bit", *lines]) + "\n", encoding="latin-1")
    drawn = pd.read_csv(fitted(path)[0])
    assert drawn["size"].dtype == float
    assert set(drawn["place"]) <= {f"Cura\u00e7ao {k}" for k in range(3)}


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("same=k", None),
        ("same!=k", "a condition that 'same' meets, which is k in every row, got same!=k"),
        ("id=P0003", "one on 'id', which is identifier and left aside"),
    ],
)
def test_conditions_on_columns_kept_aside(condition, said, fitted, csm, tmp_path):
    fitted(written("plain.csv", FILES["plain.csv"], tmp_path))
    code, _, err = csm("sample", str(tmp_path / "run"), "-n", "3", "--given", condition)
    assert code == (0 if said is None else 2)
    assert said is None or (said in err and err.count("\n") == 1)
