"""Pictures from the command line: what each command does with them, and that every mistake is one line."""

import gzip
import json
import struct
from contextlib import contextmanager

import numpy as np
import pytest

from concrete_score import runs
from concrete_score.cli.main import main
from concrete_score.data import load
from concrete_score.previews import kept_grids

SMALL = ("--steps", "4", "--batch-size", "8", "--set", "model.width=4", "--set", "valid_every=2", "--quiet")


PAPER = ("--objective", "noisy", "--set", "model.head=raw", "--set", "noise=binarized_gaussian")


def stripes(count=40, height=5, width=6, top=255):
    """Pictures of one bright row each."""
    pixels = np.zeros((count, height, width), np.uint8)
    pixels[np.arange(count), np.arange(count) % height] = top
    return pixels


def idx(pixels):
    return bytes([0, 0, 8, 3]) + struct.pack(">3I", *pixels.shape) + pixels.tobytes()


@contextmanager
def interrupted_after(steps):
    """As if Ctrl-C were pressed once so many steps were taken."""
    asked = iter(range(10**6))
    yield lambda: next(asked) >= steps


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with images and a run of them, barely trained."""
    folder = tmp_path_factory.mktemp("images")
    np.save(folder / "stripes.npy", stripes())
    with pytest.raises(SystemExit) as left:
        main(["fit", str(folder / "stripes.npy"), "--out", str(folder / "run"), *SMALL])
    assert not left.value.code
    return folder


@pytest.fixture(scope="module")
def run(home):
    return str(home / "run")


@pytest.fixture(scope="module")
def data(home):
    return str(home / "stripes.npy")


def png_size(path):
    content = path.read_bytes()
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    return struct.unpack(">2I", content[16:24])[::-1]


class TestFit:
    def test_what_was_chosen_is_said_and_kept(self, csm, data, tmp_path):
        code, out, err = csm("fit", data, "--out", str(tmp_path / "run"), *SMALL[:-1], "--json")
        shown = json.loads(out)
        assert (code, shown["model"], shown["objective"]) == (0, "unet", "clean_value")
        assert (shown["neighborhood"], shown["valid_log_likelihood"]) == ("hamming", None)
        for words in (
            "36 images to learn from, 4 held out",
            "unet: a convolutional network",
            "clean_value",
            "log_snr",
            "depth 2",
        ):
            assert words in err
        run = runs.open(tmp_path / "run")
        assert run.codec.to_json()["shape"] == [5, 6]
        assert run.recipe.noise == "log_snr"
        assert run.verify()

    def test_every_kind_of_file_is_the_same_data(self, csm, home, tmp_path):
        np.savez(tmp_path / "a.npz", x=stripes(), y=np.arange(40))
        (tmp_path / "b-idx3-ubyte").write_bytes(idx(stripes()))
        (tmp_path / "c.idx.gz").write_bytes(gzip.compress(idx(stripes())))
        expected = runs.open(home / "run").info["data"]
        for name in ("a.npz", "b-idx3-ubyte", "c.idx.gz"):
            assert csm("fit", str(tmp_path / name), "--out", str(tmp_path / f"{name}.run"), *SMALL).code == 0
            assert runs.open(tmp_path / f"{name}.run").info["data"] == expected

    def test_named_sets_bring_their_own_held_out_images(self, csm, tmp_path):
        assert csm("fit", "digits", "--out", str(tmp_path / "run"), *SMALL).code == 0
        facts = runs.open(tmp_path / "run").info["data"]
        assert (facts["rows"], facts["valid"]["rows"]) == (1199, 299)

    def test_grids_are_kept_as_the_training_goes(self, home):
        grids = kept_grids(runs.open(home / "run"))
        assert [grid.step for grid in grids] == [0, 2, 4]
        assert all(grid.png.startswith(b"\x89PNG") for grid in grids)
        assert grids[0].png != grids[-1].png

    def test_the_report_shows_them(self, home):
        page = (home / "run" / "report.html").read_text(encoding="utf-8")
        assert page.count("data:image/png;base64,") == 4  # the data, and three grids
        assert "draws, step 4" in page

    def test_a_resumed_run_is_the_run_that_was_never_left(self, csm, data, tmp_path, monkeypatch):
        words = ("fit", data, "--batch-size", "8", "--steps", "6", "--set", "model.width=4", "--set", "valid_every=2")
        assert csm(*words, "--out", str(tmp_path / "whole"), "--quiet").code == 0
        with monkeypatch.context() as patch:
            patch.setattr("concrete_score.cli.fit._interruptible", lambda: interrupted_after(3))
            code, _, err = csm(*words, "--out", str(tmp_path / "cut"), "--quiet")
        assert (code, "interrupted at step 3" in err) == (130, True)
        run = runs.open(tmp_path / "cut")
        assert (run.checkpoint().step, run.checkpoint().state["ended"]) == (3, "")
        shown = json.loads(csm("fit", data, "--out", str(tmp_path / "cut"), "--resume", "--json").out)
        assert (shown["steps"], run.checkpoint().step, run.checkpoint().state["ended"]) == (6, 6, "steps")
        one, two = (runs.open(tmp_path / name).checkpoint().tensors for name in ("whole", "cut"))
        assert one.keys() == two.keys()
        assert all((one[name] == two[name]).all() for name in one)
        assert [line["valid"] for line in run.journal.read()] == [
            line["valid"] for line in runs.open(tmp_path / "whole").journal.read()
        ]

    @pytest.mark.parametrize(
        ("words", "head", "objective"),
        [
            ((*PAPER, "--steps", "20", "--batch-size", "32", "--lr", "0.003"), "raw", "noisy"),
            (("--set", "model.head=raw", "--neighborhood", "grid"), "raw", "denoising"),
            (("--set", "model.head=log_ratio", "--set", "objective.f=score_entropy"), "log_ratio", "denoising"),
            (("--objective", "denoising", "--set", "objective.f=logistic"), None, "denoising"),
            (("--objective", "logistic"), None, "logistic"),
        ],
    )
    def test_heads_objectives_and_the_papers_noise_by_option(self, csm, data, tmp_path, words, head, objective):
        judged = ("--valid", data)  # a few images would judge these noisier objectives by chance
        shown = json.loads(csm("fit", data, "--out", str(tmp_path / "run"), *judged, *SMALL, *words, "--json").out)
        assert (shown["model"], shown["objective"]) == ("unet", objective)
        assert runs.open(tmp_path / "run").recipe.model_options.get("head") == head

    def test_grey_levels(self, csm, data, tmp_path):
        run = str(tmp_path / "run")
        assert csm("fit", data, "--out", run, *SMALL, "--levels", "4").code == 0
        assert runs.open(run).space.sizes == (4,) * 30
        assert csm("sample", run, "-n", "3", "--out", str(tmp_path / "x.npy"), "--quiet").code == 0
        assert set(np.unique(np.load(tmp_path / "x.npy"))) <= {0, 85, 170, 255}

    def test_a_density_of_rows_may_learn_images_too(self, csm, data, tmp_path):
        run, words = str(tmp_path / "run"), ("--steps", "20", "--quiet", "--set", "model.hidden=8")
        assert csm("fit", data, "--out", run, "--model", "made", *words).code == 0
        assert json.loads(csm("evaluate", run, data, "--json", "--quiet").out)["method"] == "exact"
        assert csm("sample", run, "-n", "4", "--out", str(tmp_path / "grid.png"), "--quiet").code == 0
        assert len(kept_grids(runs.open(run))) >= 1


class TestSample:
    def test_a_grid_and_the_way_to_it(self, csm, run, tmp_path):
        grid, way = tmp_path / "grid.png", tmp_path / "way.png"
        code, out, err = csm("sample", run, "-n", "9", "--out", str(grid), "--trajectory", str(way))
        assert (code, out) == (0, "")
        assert "9 images drawn by ancestral" in err
        assert "warning: unadjusted: " in err
        assert png_size(grid) == (3 * (8 * 5 + 1) + 1, 3 * (8 * 6 + 1) + 1)  # enlarged eight times, a line between
        assert png_size(way) == (8 * 41 + 1, 12 * 49 + 1)  # eight images in twelve stages

    def test_arrays_rows_and_json_are_the_same_draws(self, csm, run, tmp_path):
        for name in ("x.npy", "x.npz", "x.csv"):
            assert csm("sample", run, "-n", "5", "--out", str(tmp_path / name), "--quiet", "--seed", "3").code == 0
        images = np.load(tmp_path / "x.npy")
        assert (images.shape, images.dtype) == ((5, 5, 6), np.uint8)
        assert (np.load(tmp_path / "x.npz")["x"] == images).all()
        shown = json.loads(csm("sample", run, "-n", "5", "--json", "--quiet", "--seed", "3").out)
        assert shown["shape"] == [5, 6]
        assert shown["columns"][7] == "1,1"
        assert np.array(shown["rows"]).reshape(5, 5, 6).tolist() == images.tolist()
        printed = csm("sample", run, "-n", "5", "--quiet", "--seed", "3").out
        assert printed == (tmp_path / "x.csv").read_text()
        other = json.loads(csm("sample", run, "-n", "5", "--json", "--quiet", "--seed", "4").out)
        assert other["rows"] != shown["rows"]

    @pytest.mark.parametrize("sampler", ["mh", "informed", "heat_bath", "ancestral", "corrected"])
    def test_every_way_from_noise_by_its_name(self, csm, run, tmp_path, sampler):
        words = ("--sampler", sampler, "--passes", "12", "--out", str(tmp_path / "x.npz"))
        code, _, err = csm("sample", run, "-n", "3", *words)
        assert code == 0
        assert f"3 images drawn by {sampler}" in err

    def test_a_pixel_may_be_given(self, csm, run):
        shown = json.loads(csm("sample", run, "-n", "6", "--given", "0,0=255", "--given", "4,5=0", "--json").out)
        assert {(row[0], row[-1]) for row in shown["rows"]} == {(255, 0)}

    def test_mistakes(self, misused, run, tmp_path):
        assert "did you mean 'ancestral'" in misused("sample", run, "-n", "3", "--sampler", "ancestry")
        assert "a way from noise, for a model with noise levels, got 'gibbs'" in misused(
            "sample", run, "-n", "3", "--sampler", "gibbs"
        )
        assert "did you mean '0,0'" in misused("sample", run, "-n", "3", "--given", "0;0=255")
        assert "'x.jpg'" in misused("sample", run, "-n", "3", "--out", str(tmp_path / "x.jpg"))
        assert ".png" in misused("sample", run, "-n", "3", "--trajectory", str(tmp_path / "x.npz"))
        (tmp_path / "x.png").write_bytes(b"")
        assert "one that exists" in misused("sample", run, "-n", "3", "--out", str(tmp_path / "x.png"))
        assert "one that exists" in misused("sample", run, "-n", "3", "--trajectory", str(tmp_path / "x.png"))


class TestEvaluate:
    def test_a_denoising_head_has_a_lower_bound_alone(self, csm, run, data):
        shown = json.loads(csm("evaluate", run, data, "--json", "--quiet").out)
        assert (shown["method"], shown["rows"]) == ("variational", 40)
        assert (shown["upper"], shown["log_likelihood"], shown["raise"]) == (None, None, None)
        assert shown["lower"] < 0 < min(shown["stderr"], shown["bound_stderr"])
        assert "variational bound of the chain" in csm("evaluate", run, data).out

    def test_other_heads_have_none_and_say_why(self, csm, data, tmp_path):
        run = str(tmp_path / "run")
        assert csm("fit", data, "--out", run, *SMALL, "--set", "model.head=log_ratio").code == 0
        code, out, err = csm("evaluate", run, data, "--json")
        assert (code, json.loads(out)["method"], json.loads(out)["lower"]) == (0, "none", None)
        assert "warning: no bound: only a denoising head" in err
        assert csm("sample", run, "-n", "2", "--out", str(tmp_path / "x.npy"), "--quiet").code == 0

    def test_one_number_a_image_is_not_to_be_had(self, misused, run, data, tmp_path):
        assert "exact log-likelihood of every row" in misused("evaluate", run, data, "--out", str(tmp_path / "x.csv"))


class TestImpute:
    def blanked(self, folder):
        """The same blanks in the three ways to say them."""
        pixels = stripes(6)
        blank = np.zeros(pixels.shape, bool)
        blank[:4, 2:] = True
        np.save(folder / "whole.npy", np.where(blank, -1, pixels.astype(int)))
        np.save(folder / "nan.npy", np.where(blank, np.nan, pixels))
        np.savez(folder / "mask.npz", x=pixels, mask=blank)
        return pixels, blank

    def test_blanks_in_three_ways_are_filled_alike_and_the_rest_is_kept(self, csm, run, tmp_path):
        pixels, blank = self.blanked(tmp_path)
        found = []
        for name in ("whole.npy", "nan.npy", "mask.npz"):
            code, _, err = csm("impute", run, str(tmp_path / name), "--out", str(tmp_path / f"{name}.out.npy"))
            assert code == 0
            assert "72 blank cells filled by corrected" in err
            assert "unadjusted" in err
            assert "only through its noise" in err
            found.append(np.load(tmp_path / f"{name}.out.npy"))
        for filled in found:
            assert (filled == found[0]).all()
            assert (filled[~blank] == pixels[~blank]).all()
            assert set(np.unique(filled)) <= {0, 255}

    def test_draws_are_copies_and_a_grid_has_a_row_a_image(self, csm, run, tmp_path):
        pixels, blank = self.blanked(tmp_path)
        words = ("impute", run, str(tmp_path / "mask.npz"), "--draws", "3", "--quiet")
        assert csm(*words, "--out", str(tmp_path / "x.npz")).code == 0
        assert csm(*words, "--out", str(tmp_path / "x.png")).code == 0
        with np.load(tmp_path / "x.npz") as filled:
            copies = filled["x"].reshape(3, *pixels.shape)
            assert filled["draw"].tolist() == [0] * 6 + [1] * 6 + [2] * 6
        assert (copies[:, ~blank] == pixels[~blank]).all()
        assert (copies[0] != copies[1]).any()
        assert png_size(tmp_path / "x.png") == (6 * 41 + 1, 3 * 49 + 1)

    def test_nothing_blank_is_said(self, csm, run, data, tmp_path):
        code, _, err = csm("impute", run, data, "--out", str(tmp_path / "x.npy"))
        assert code == 0
        assert "nothing is blank" in err
        assert (np.load(tmp_path / "x.npy") == stripes()).all()


class TestShowExplainDiagnose:
    def test_show(self, csm, run):
        shown = json.loads(csm("show", run, "--json").out)
        assert shown["images"] == {"shape": [5, 6], "levels": 2, "top": 255, "threshold": 0.5, "dtype": "uint8"}
        assert "columns" not in shown
        assert "Images:" in csm("show", run).out

    def test_explain_names_pixels(self, csm, run, data):
        changes = json.loads(csm("explain", run, data, "--top", "2", "--json", "--quiet").out)["changes"]
        assert len(changes) == 80
        row, column = map(int, changes[0]["column"].split(","))
        assert (row < 5, column < 6) == (True, True)
        assert {changes[0]["from"], changes[0]["to"]} == {0, 255}

    def test_diagnose_a_run(self, csm, run, data):
        code, out, err = csm("diagnose", run, "--data", data)
        assert code == 0
        assert "onsistent" in out
        assert "draws come down from noise" in err
        found = json.loads(csm("diagnose", run, "--data", data, "--json").out)
        assert found["draws_from_noise"] is True
        assert found["verdict"] == out.strip().splitlines()[-1]

    def test_diagnose_images_says_why_not(self, misused, data):
        assert "expected a table, or a run, got images" in misused("diagnose", data)


class TestMistakes:
    @pytest.mark.parametrize(
        ("array", "words"),
        [
            (np.zeros((3, 4, 4, 3)), "expected images of shape (N, H, W), got shape (3, 4, 4, 3)"),
            (np.zeros((0, 4, 4)), "got shape (0, 4, 4)"),
            (np.full((3, 4, 4), "a"), "grey values, which are numbers"),
            (np.full((3, 4, 4), 1j), "grey values, which are numbers"),
            (np.full((3, 4, 4), -2), "image 0, row 0, column 0: expected grey values from 0, got -2"),
            (np.full((3, 4, 4), np.inf), "got inf"),
            (np.full((3, 4, 4), np.nan), "some pixels that are not blank"),
            (np.zeros((3, 4, 4)), "images that are all 0"),
        ],
    )
    def test_arrays_that_are_no_images(self, misused, tmp_path, array, words):
        np.save(tmp_path / "x.npy", array)
        assert words in misused("fit", str(tmp_path / "x.npy"), "--out", str(tmp_path / "run"), "--quiet")
        assert not (tmp_path / "run").exists()

    def test_images_too_small_for_the_depth(self, misused, csm, tmp_path):
        np.save(tmp_path / "x.npy", stripes(20, 3, 7))
        words = ("fit", str(tmp_path / "x.npy"), "--out", str(tmp_path / "run"), *SMALL)
        error = misused(*words, "--set", "model.depth=2")
        assert "images of at least 4x4 for depth 2, got 3x7; use a depth of at most 1" in error
        assert csm(*words).code == 0  # by itself it takes the depth that fits

    def test_a_blank_pixel_in_training_is_counted(self, misused, tmp_path):
        holed = stripes().astype(float)
        holed[3, 1, 1] = np.nan
        np.save(tmp_path / "x.npy", holed)
        error = misused("fit", str(tmp_path / "x.npy"), "--out", str(tmp_path / "run"), "--quiet")
        assert "no blank pixels, got 1 in 1 of 40 images" in error

    @pytest.mark.parametrize("command", ["evaluate", "explain", "impute"])
    def test_another_shape_or_brighter_images_than_in_training(self, misused, run, tmp_path, command):
        np.save(tmp_path / "shape.npy", stripes(4, 6, 5))
        np.save(tmp_path / "grey.npy", stripes(4).astype(int) * 2)
        assert "images of 5x6 pixels, as in training, got 6x5" in misused(
            command, run, str(tmp_path / "shape.npy"), "--quiet"
        )
        assert "grey values from 0 to 255, got 510" in misused(command, run, str(tmp_path / "grey.npy"), "--quiet")

    @pytest.mark.parametrize("command", ["evaluate", "explain", "impute"])
    def test_a_table_given_to_a_model_of_images(self, misused, run, tmp_path, command):
        (tmp_path / "x.csv").write_text("a,b\n1,2\n")
        np.save(tmp_path / "x.npy", np.zeros((4, 30), int))
        assert "expected images of shape (N, H, W), got rows" in misused(
            command, run, str(tmp_path / "x.csv"), "--quiet"
        )
        assert "images of shape (N, H, W), got rows" in misused(command, run, str(tmp_path / "x.npy"), "--quiet")

    def test_images_given_to_a_model_of_a_table(self, misused, csm, data, tmp_path):
        (tmp_path / "x.csv").write_text("a,b\n" + "1,2\n2,1\n1,1\n" * 10)
        run = str(tmp_path / "run")
        assert csm("fit", str(tmp_path / "x.csv"), "--out", run, "--steps", "20", "--quiet").code == 0
        for command in ("evaluate", "explain", "impute"):
            assert "expected a table, got images" in misused(command, run, data, "--quiet")
            assert "expected a table, got images" in misused(command, run, "digits", "--quiet")
        assert "a run of images, got one of rows" in misused(
            "sample", run, "-n", "1", "--trajectory", str(tmp_path / "x.png"), "--quiet"
        )
        assert "a model with noise levels" in misused("sample", run, "-n", "1", "--passes", "5", "--quiet")

    def test_a_model_of_images_asked_to_learn_a_table(self, misused, tmp_path):
        (tmp_path / "x.csv").write_text("a,b\n" + "1,2\n2,1\n" * 10)
        error = misused("fit", str(tmp_path / "x.csv"), "--out", str(tmp_path / "run"), "--model", "unet", "--quiet")
        assert "images for the model unet" in error
        assert "a table of 2 columns" in error

    def test_options_of_the_other_kind(self, misused, data, tmp_path):
        (tmp_path / "x.csv").write_text("a,b\n1,2\n2,1\n")
        out = ("--out", str(tmp_path / "run"), "--quiet")
        assert "--levels: expected an option of tables" in misused(
            "fit", str(tmp_path / "x.csv"), *out, "--levels", "3"
        )
        assert "--drop: expected an option of images" in misused("fit", data, *out, "--drop", "a")
        assert "a threshold of bits alone" in misused("fit", data, *out, "--levels", "3", "--threshold", "0.4")

    def test_a_run_is_resumed_with_its_own_images(self, misused, home, run, tmp_path):
        np.save(tmp_path / "x.npy", stripes(44))
        assert "the data of this run" in misused("fit", str(tmp_path / "x.npy"), "--out", run, "--resume", "--quiet")
        assert "as when this run began, got other options; leave out --levels" in misused(
            "fit", str(home / "stripes.npy"), "--out", run, "--resume", "--levels", "3", "--quiet"
        )


def test_digits_are_known_by_name():
    assert load("digits").pixels.shape == (299, 8, 8)


def test_images_of_another_scale_are_pointed_out(csm, run, tmp_path):
    path = tmp_path / "bits.npy"
    np.save(path, stripes(6, top=1))
    assert (
        "every pixel counts as black: the largest grey value is 1, in training it was 255"
        in csm("evaluate", run, str(path)).err
    )
    torn = stripes(2, top=1).astype(np.int16)
    torn[:, :, 3:] = -1
    np.save(path, torn)
    assert "every pixel counts as black" in csm("impute", run, str(path), "--passes", "4").err
    np.save(path, stripes(2, top=0))
    assert "black" not in csm("evaluate", run, str(path)).err


def test_an_unknown_ending_names_those_of_images(misused, run, tmp_path):
    assert "ending in .npy, .npz, .png, .csv" in misused("sample", run, "-n", "2", "--out", str(tmp_path / "a.jpg"))
