"""Every named piece of the library, as plain strings: kind -> name -> where it lives and what it is.

Nothing is imported until a name is looked up, and a name that is not listed here (or registered by an installed
package through the entry-point group ``concrete_score.KIND``) is never imported at all.
"""

from functools import cache
from typing import Any, NamedTuple

from concrete_score.errors import InputError, Text, nearest


class Entry(NamedTuple):
    """Where a name lives (``module:attribute``), one line of help, and the paper's section."""

    target: str
    help: str
    section: str = ""


_ROOT = "concrete_score."

BUILT_IN: dict[str, dict[str, Entry]] = {
    "neighborhoods": {
        "chain": Entry("neighborhoods.site_graphs:chain", "each value points to the next one", "3.1, C.5"),
        "chain_two_way": Entry("neighborhoods.site_graphs:chain_two_way", "each value and its two sides", "3.1"),
        "cycle": Entry("neighborhoods.site_graphs:cycle", "a chain whose last value points to the first", "3.1, C.5"),
        "cycle_two_way": Entry("neighborhoods.site_graphs:cycle_two_way", "a cycle walked both ways", "3.1"),
        "star": Entry("neighborhoods.site_graphs:star", "every value points to one center", "3.1, example 1"),
        "complete": Entry("neighborhoods.site_graphs:complete", "every value points to every other", "3.1"),
        "grid": Entry("neighborhoods.site_graphs:grid", "one site moves by one, wrapping around", "3.1, C.5"),
        "grid_bounded": Entry("neighborhoods.site_graphs:grid_bounded", "one site moves by one, no wrapping", "3.1"),
        "hamming": Entry("neighborhoods.site_graphs:hamming", "one site takes any other value", "3.1"),
        "moore": Entry("neighborhoods.moore:moore", "every site moves by -1, 0 or 1", "4.3"),
        "explicit": Entry("neighborhoods.explicit:explicit", "any directed graph, from a list of edges", "4.2"),
    },
    "targets": {
        "sixteen_categories": Entry("targets.toys:sixteen_categories", "two bumps on a floor, 16 categories", "5.2"),
        "sine": Entry("targets.toys:sine", "one period of a wave, 16 categories", "B.2"),
        "low_density": Entry("targets.toys:low_density", "two plateaus divided by a desert", "B.2"),
        "8gaussians": Entry("targets.toys:eight_gaussians", "eight Gaussians on a circle, quantized", "5.3, B.3"),
        "checkerboard": Entry("targets.toys:checkerboard", "uniform on every second square, quantized", "5.3"),
        "2spirals": Entry("targets.toys:two_spirals", "two interleaved noisy spirals, quantized", "5.3, B.3"),
        "circles": Entry("targets.toys:circles", "two concentric noisy circles, quantized", "5.3"),
        "moons": Entry("targets.toys:moons", "two interleaved half circles, quantized", "5.3"),
        "pinwheel": Entry("targets.toys:pinwheel", "five bent blades, quantized", "5.3"),
        "rings": Entry("targets.toys:rings", "four concentric thin rings, quantized", "5.3"),
        "swissroll": Entry("targets.toys:swissroll", "one noisy spiral, quantized", "5.3"),
        "ising": Entry("targets.boltzmann:Ising", "spins on a lattice, exact partition function up to 12 wide"),
        "rbm": Entry(
            "targets.boltzmann:random_rbm", "a random restricted Boltzmann machine, exact up to 20 hidden units"
        ),
        "bayesian_network": Entry("targets.bayesian_network:random_network", "a random network of mixed categories"),
        "mixed_table": Entry("targets.numbers:random_mixed_table", "a random network of categories and numbers"),
        "asia": Entry("targets.bayesian_network:asia", "the chest-clinic network; flips cannot connect its support"),
    },
    "noise": {
        "categorical": Entry("noise.families:categorical", "a site keeps its value, or takes any other", "4.3, B.3"),
        "binarized_gaussian": Entry(
            "noise.families:binarized_gaussian", "rounded Gaussian noise on bits: exactly a bit flip", "C.4"
        ),
        "symmetric": Entry("noise.families:symmetric", "the same for all values, by log-probabilities a level"),
        "absorbing": Entry("noise.absorbing:absorbing", "a site keeps its value or becomes unknown: masked diffusion"),
        "log_snr": Entry("noise.families:log_snr", "levels even in the logarithm of the signal-to-noise ratio"),
    },
    "formats": {
        "csv": Entry("data.formats:csv", "comma-separated text, the first line names the columns"),
        "tsv": Entry("data.formats:tsv", "tab-separated text, the first line names the columns"),
        "data": Entry("data.formats:data", "comma-separated text without names; columns are x0, x1, …"),
        "parquet": Entry("data.formats:parquet", "Parquet tables"),
        "npy": Entry("data.formats:npy", "a NumPy array: (N, D) is a table, (N, H, W) are images"),
        "npz": Entry("data.formats:npz", "a NumPy archive: array x, for images also labels y and a mask of blanks"),
        "idx": Entry("data.formats:idx", "images as MNIST has them; only read"),
        "arff": Entry("data.formats:arff", "ARFF tables of nominal attributes; only read"),
        "fasta": Entry("data.formats:fasta", "sequences, aligned or not"),
        "a2m": Entry("data.formats:a2m", "an alignment with insertions in small letters; only read"),
        "text": Entry("data.formats:text", "lines of text"),
        "png": Entry("data.formats:png", "a grid of images; only written"),
    },
    "codecs": {
        "table": Entry("codecs.table:TableCodec", "rows and columns, one site a column"),
        "integers": Entry("codecs.integers:IntegersCodec", "arrays of whole numbers, as early runs kept them"),
        "image": Entry("codecs.image:ImageCodec", "images of bits or grey levels, one site a pixel"),
        "sequence": Entry("codecs.sequence:SequenceCodec", "sequences of letters or words, one site a position"),
    },
    "columns": {
        "categories": Entry("codecs.columns:Categories", "the distinct texts, whole numbers or booleans of a column"),
        "bins": Entry("codecs.columns:Bins", "ranges of a column of numbers, by their names"),
        "number": Entry("codecs.numbers:Number", "numbers: ordered ranges and atoms, with a law inside each range"),
        "amount": Entry("codecs.amounts:Amount", "numbers written with a currency, a unit or parted thousands"),
        "date": Entry("codecs.dates:Date", "dates and times, as numbers in the column's own format"),
        "pooled": Entry("codecs.pooled:Pooled", "frequent texts, and one value for all others"),
    },
    "aside": {
        "constant": Entry("codecs.aside:Constant", "one value in every row; given back"),
        "identifier": Entry("codecs.aside:Identifier", "tells rows apart; new rows continue it"),
        "text": Entry("codecs.aside:FreeText", "texts of which hardly any two are equal; drawn back"),
    },
    "models": {
        "table": Entry("models.densities:table", "one free logit for every state", "5.3, C.2"),
        "mlp": Entry("models.score:mlp", "a shallow tanh network that gives all ratios in one pass", "5.2, C.1"),
        "made": Entry("models.made:made", "a masked autoregressive density, exact and normalized", "5.4, C.3"),
        "latent": Entry("baselines.latent:latent", "a mixture of trees or independents whose tables a network decodes"),
        "mixture": Entry("models.mixture:mixture", "a mixture of other models, weighed by held-out rows"),
        "energy": Entry("models.densities:energy", "a network that gives an unnormalized log-density"),
        "potts": Entry("models.potts:potts", "fields of all sites and couplings of all pairs; unnormalized"),
        "transformer": Entry(
            "models.transformer:transformer", "attention over all sites, with any head and noise; or causal, a density"
        ),
        "unet": Entry(
            "models.unet:unet", "a convolutional score network for images, given the noise level", "5.5, C.4"
        ),
    },
    "heads": {
        "log_ratio": Entry("models.heads:LogRatioHead", "outputs are log-ratios: ratios stay positive", "4.1"),
        "raw": Entry("models.heads:RawHead", "outputs are the paper's scores, which may fall below -1", "4.1"),
        "denoising": Entry("models.heads:DenoisingHead", "outputs are each site's clean value", "4.3"),
    },
    "baselines": {
        "independent": Entry("baselines.independent:Independent", "every site on its own, by counting"),
        "chow_liu": Entry("baselines.chow_liu:ChowLiu", "the best tree of pairwise dependences"),
        "mixture": Entry("baselines.independent:Mixture", "a mixture of independents, by EM"),
    },
    "divergences": {
        "csm": Entry("objectives.divergences:csm", "f = r²: Concrete score matching", "4.1"),
        "score_entropy": Entry("objectives.divergences:score_entropy", "f = r log r: score entropy"),
        "logistic": Entry("objectives.divergences:logistic", "f = r log r - (1+r) log(1+r): pseudo-likelihood on bits"),
        "ratio_matching": Entry("objectives.divergences:ratio_matching", "f = 1/(1+r): ratio matching on bits", "D.1"),
    },
    "edges": {
        "all": Entry("objectives.estimators:AllEdges", "every edge, in bounded memory", "4.1"),
        "independent": Entry("objectives.estimators:IndependentEdges", "one uniform neighbor for each term", "4.2"),
        "paired": Entry("objectives.estimators:PairedEdges", "one uniform neighbor for both terms"),
        "stratified": Entry("objectives.estimators:StratifiedEdges", "one neighbor from each block of sites"),
        "importance": Entry("objectives.proposals:ImportanceEdges", "neighbors a reference finds plausible, reweighed"),
        "self_weighed": Entry(
            "objectives.proposals:SelfWeighedEdges", "neighbors, in units of the ratios of a frozen copy of the model"
        ),
        "self_proposal": Entry(
            "objectives.proposals:SelfProposalEdges", "states drawn from a frozen copy of the model"
        ),
    },
    "objectives": {
        "csm": Entry("objectives.build:csm", "Concrete score matching on edges", "4.1"),
        "score_entropy": Entry("objectives.build:score_entropy", "score entropy on edges"),
        "logistic": Entry("objectives.build:logistic", "logistic ratios on edges"),
        "ratio_matching": Entry("objectives.build:ratio_matching", "ratio matching on edges", "D.1"),
        "ratio_matching_multiclass": Entry(
            "objectives.build:ratio_matching_multiclass", "ratio matching on site conditionals, corrected", "D.1"
        ),
        "ratio_matching_uncorrected": Entry(
            "objectives.build:ratio_matching_uncorrected", "ratio matching as first published: ignores the data", "D.1"
        ),
        "discrete_marginalization": Entry(
            "objectives.build:discrete_marginalization", "discrete marginalization, corrected", "D.2"
        ),
        "discrete_marginalization_uncorrected": Entry(
            "objectives.build:discrete_marginalization_uncorrected", "as first published: ignores the data", "D.2"
        ),
        "denoising": Entry("objectives.build:denoising", "denoising Concrete score matching", "4.3"),
        "noisy": Entry("objectives.denoising:noisy", "ratios matched on corrupted rows, level by level", "5.5, C.4"),
        "clean_value": Entry("objectives.denoising:clean_value", "the cross-entropy of each site's clean value"),
        "pseudo_likelihood": Entry(
            "objectives.build:pseudo_likelihood", "the log-loss of each site given the others; on bits half of logistic"
        ),
        "maximum_likelihood": Entry("objectives.build:maximum_likelihood", "for normalized models", "B.1"),
    },
    "kernels": {
        "auto": Entry("samplers.choice:auto", "the kernel that uses most of what the model offers"),
        "mh": Entry("samplers.mh:MetropolisHastings", "a uniform neighbor, accepted or not", "3.3"),
        "informed": Entry("samplers.informed:Informed", "a neighbor in proportion to a function of its ratio"),
        "gibbs": Entry("samplers.gibbs:Gibbs", "a site drawn anew from its conditional"),
        "gwg": Entry("samplers.informed:GibbsWithGradients", "single sites, ratios guessed by one gradient"),
        "multi_site": Entry("samplers.multi_site:MultiSite", "many sites at once, informed by all ratios"),
        "dlmc": Entry("samplers.multi_site:DiscreteLangevin", "every site by its own process, then all adjusted"),
        "path_auxiliary": Entry("samplers.path_auxiliary:PathAuxiliary", "a path of informed changes, accepted as one"),
        "colored": Entry("samplers.colored:Colored", "sites that do not interact drawn at once, color by color"),
        "sweep": Entry("samplers.sweep:Sweep", "every site in turn, the fields of a pairwise model kept up to date"),
        "auxiliary": Entry("samplers.auxiliary:Auxiliary", "hidden and visible units in turn"),
        "heat_bath": Entry("samplers.gibbs:HeatBath", "a share of the sites drawn anew at once; unadjusted"),
        "tempering": Entry("samplers.tempering:Tempering", "warmer copies that trade places with the chain"),
        "langevin": Entry("samplers.langevin:Langevin", "Langevin between the states, unadjusted: biased", "3.3, A.3"),
        "mala": Entry("samplers.langevin:MALA", "Langevin between the states, adjusted: exact", "3.3, A.3"),
        "exact": Entry("samplers.independent:Exact", "independent draws by enumeration"),
        "ancestral": Entry("samplers.independent:Ancestral", "independent draws by the model itself"),
    },
    "annealing": {
        "mh": Entry("samplers.annealed:annealed_mh", "Metropolis-Hastings from noise through the levels", "5.5, C.4"),
        "informed": Entry("samplers.annealed:annealed_informed", "informed single changes through the levels"),
        "heat_bath": Entry("samplers.annealed:annealed_heat_bath", "many sites at once, level by level; unadjusted"),
        "ancestral": Entry("samplers.annealed:reverse_chain", "the noise run backwards, a pass a level; unadjusted"),
        "corrected": Entry("samplers.annealed:corrected_chain", "the same with moves at each level; for in-painting"),
    },
    "unmasking": {
        "one_site": Entry("samplers.unmasking:one_site", "one random site a pass: exact for the any-order model"),
        "ancestral": Entry("samplers.unmasking:reverse", "the noise run backwards, several sites a pass; unadjusted"),
        "confidence": Entry("samplers.unmasking:confidence", "the surest sites of each pass first; unadjusted"),
        "corrected": Entry("samplers.unmasking:corrected", "some sites hidden again at each pass; unadjusted"),
    },
    "loggers": {
        "tensorboard": Entry("training.loggers:TensorBoard", "files that TensorBoard reads, in RUN/tensorboard"),
        "mlflow": Entry("training.loggers:MLflow", "an MLflow run, where MLFLOW_TRACKING_URI says"),
        "wandb": Entry("training.loggers:WandB", "a run at Weights & Biases; WANDB_MODE=offline keeps it here"),
    },
    "experiments": {
        "figure1": Entry("experiments.figure1:run", "every neighborhood as a directed graph", "3.1, figure 1"),
        "one_dimensional": Entry(
            "experiments.one_dimensional:run", "sixteen categories, through a cycle's ratios", "5.2"
        ),
        "guard": Entry(
            "experiments.guard:run", "f = r² on flips of real data diverges, and the guard catches it", "5.4"
        ),
        "tables": Entry("experiments.tables:run", "known truths learned with nothing said, and how far off it is"),
        "mixed": Entry("experiments.mixed:run", "tables with numbers and blanks: sampled rows beside real ones"),
        "imputation": Entry(
            "experiments.imputation:run", "a fifth of a table's cells filled, beside a model a column and imputers"
        ),
        "conditions": Entry("experiments.conditions:run", "rows given conditions against the exact conditional"),
        "numbers": Entry("experiments.numbers:run", "known truths with numbers learned with nothing said"),
        "blanks": Entry("experiments.blanks:run", "known truths learned from rows with a third of their cells blank"),
        "processes": Entry("experiments.processes:run", "two processes beside one: weights, seconds, workers killed"),
        "explain": Entry("experiments.tables:run_explain", "planted mistakes, and which model finds them first"),
        "answers": Entry("experiments.answers:run", "a million rows drawn and evaluated, and where the time goes"),
        "scale": Entry("experiments.scale:run", "tables larger than memory: what a streamed fit takes, and learns"),
        "twenty": Entry(
            "experiments.twenty:run", "density-estimation sets learned with nothing said, beside published numbers"
        ),
        "figure2": Entry("experiments.figure2:run", "sixteen categories sampled through their scores", "5.2, figure 2"),
        "table1": Entry(
            "experiments.table1:run", "eight data sets of bits, a MADE trained by every method", "5.4, table 1"
        ),
        "table2": Entry("experiments.table1:run_table2", "table 1 with the likelihood; the same cells", "B.1, table 2"),
        "figure3": Entry(
            "experiments.figure3:run", "three toys on 91 × 91 bins, by the baselines, CSM and ours", "5.3, figure 3"
        ),
        "figure4": Entry(
            "experiments.figure4:run", "digits from noise, by the paper's sampler and ours", "5.5, figure 4"
        ),
        "figure5": Entry("experiments.figure5:run", "four neighborhoods where every category is seen", "B.2, figure 5"),
        "figure6": Entry(
            "experiments.figure6:run", "four neighborhoods over a desert, and what noise repairs", "B.2, figure 6"
        ),
        "figure7": Entry(
            "experiments.figure7:run", "denoising on two toys against the exact noisy distribution", "B.3, figure 7"
        ),
        "samplers": Entry(
            "experiments.samplers:run", "every kernel on nine problems beside a textbook DMALA loop", "3.3"
        ),
        "mutations": Entry("experiments.mutations:run", "a planted Potts model, and a protein family against an assay"),
        "sequences": Entry("experiments.sequences:run", "text by masked diffusion beside its twin and a 5-gram"),
        "estimators": Entry("experiments.estimators:run", "the noise of each way to draw edges, at equal cost", "4.2"),
    },
}


def kinds() -> list[str]:
    """The kinds of names there are."""
    return list(BUILT_IN)


def entries(kind: str) -> dict[str, Entry]:
    """All names of a kind, the library's own first, then those of installed packages.

    >>> entries("neighborhoods")["hamming"].help
    'one site takes any other value'
    """
    if kind not in BUILT_IN:
        raise InputError("a kind of name", repr(kind), fix=nearest(kind, kinds()))
    ours = {name: entry._replace(target=_ROOT + entry.target) for name, entry in BUILT_IN[kind].items()}
    theirs = {name: entry for name, entry in installed(kind).items() if name not in ours}
    return {**ours, **theirs}


@cache
def installed(kind: str) -> dict[str, Entry]:
    """Names that installed packages add; read once, for it means looking through all of them."""
    from importlib.metadata import entry_points

    return {
        point.name: Entry(point.value, f"from {point.dist.name if point.dist else 'another package'}")
        for point in entry_points(group=f"concrete_score.{kind}")
    }


def names(kind: str) -> list[str]:
    """The names of a kind.

    >>> "cycle" in names("neighborhoods")
    True
    """
    return list(entries(kind))


def find(kind: str, name: str, where: Text = "") -> Entry:
    """What is registered as ``name``; nothing is imported.

    Raises:
        InputError: nothing is; it names ``where`` the name came from, and the nearest one that is known.

    >>> find("neighborhoods", "hamming").target
    'concrete_score.neighborhoods.site_graphs:hamming'
    """
    known = entries(kind)
    if name not in known:
        raise InputError(f"one of the registered {kind}", repr(name), where, nearest(name, list(known)))
    return known[name]


def load(kind: str, name: str) -> Any:
    """The object registered as ``name``.

    >>> load("neighborhoods", "hamming").__name__
    'hamming'
    """
    module, _, attribute = find(kind, name).target.partition(":")
    from importlib import import_module  # not before the name is known to be ours

    return getattr(import_module(module), attribute)
