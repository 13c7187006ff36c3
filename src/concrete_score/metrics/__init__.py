"""Metrics: how far one distribution is from another."""

from concrete_score.metrics.histogram import histogram as histogram
from concrete_score.metrics.kl import kl as kl
from concrete_score.metrics.tables import Table as Table
from concrete_score.metrics.total_variation import total_variation as total_variation
