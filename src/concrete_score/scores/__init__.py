"""Concrete scores: exact ratios, the way back to the distribution, the Stein limit (paper, section 3)."""

from concrete_score.scores.exact import CHUNK as CHUNK
from concrete_score.scores.exact import concrete_scores as concrete_scores
from concrete_score.scores.exact import log_ratios as log_ratios
from concrete_score.scores.exact import pmf_log_ratios as pmf_log_ratios
from concrete_score.scores.recovery import Recovery as Recovery
from concrete_score.scores.recovery import recover as recover
from concrete_score.scores.recovery import recover_support as recover_support
from concrete_score.scores.stein import central_difference_score as central_difference_score
from concrete_score.scores.stein import scaled_score as scaled_score
