"""Metrics: how far one distribution is from another."""

from concrete_score.metrics.distances import Table as Table
from concrete_score.metrics.distances import histogram as histogram
from concrete_score.metrics.distances import kl as kl
from concrete_score.metrics.distances import total_variation as total_variation
