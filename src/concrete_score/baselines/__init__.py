"""Baselines: normalized density models of mixed categories, fitted in closed form or by EM.

They are the floor that anything learned through scores must beat, and each answers any conditional question exactly
(see `Conditionals`).

>>> import torch
>>> from concrete_score.spaces import Space
>>> rows = torch.tensor([[0, 0], [0, 0], [1, 2], [1, 2]], dtype=torch.uint8)
>>> tree = ChowLiu.fit(rows, Space((2, 3)), pseudo_count=0)
>>> tree.log_density(torch.tensor([[0, 0], [0, 2]])).exp().tolist()
[0.5, 0.0]
"""

from concrete_score.baselines.chow_liu import ChowLiu as ChowLiu
from concrete_score.baselines.conditionals import Conditionals as Conditionals
from concrete_score.baselines.independent import Independent as Independent
from concrete_score.baselines.independent import Mixture as Mixture
from concrete_score.baselines.kneser_ney import KneserNey as KneserNey
