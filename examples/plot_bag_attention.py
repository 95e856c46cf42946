r"""
What made the label of a bag
============================

In multiple instance learning a bag of instances has a label, and nobody says which instance it is due to. A
`HopfieldPooling` layer learns a query of its own, looks for it in each bag, and can be asked where it looked.
"""

# %%
# Bags of digits
# --------------
# The handwritten digits of scikit-learn, twelve to a bag at most. A bag is positive if there is a nine in it: the label
# of the bag is all that the network is told.

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

from ahop.nn import HopfieldPooling

BLUE, RED = "#1b5e8c", "#b5372e"
LARGEST = 12
rng = np.random.default_rng(0)
digits = load_digits()
order = rng.permutation(len(digits.data))


def draw_bags(count: int, source: np.ndarray) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Indices of digits (count, 12), which of them are there, and which are a nine."""
    nines, others = source[digits.target[source] == 9], source[digits.target[source] != 9]
    places = rng.choice(others, (count, LARGEST))
    present = np.arange(LARGEST) < rng.integers(6, LARGEST + 1, (count, 1))
    # Half of the bags get a nine or two, anywhere among the first six.
    for bag in range(0, count, 2):
        some = rng.choice(6, rng.integers(1, 3), replace=False)
        places[bag, some] = rng.choice(nines, len(some))
    is_nine = (digits.target[places] == 9) & present
    return torch.from_numpy(places), torch.from_numpy(present), torch.from_numpy(is_nine)


images = torch.from_numpy(digits.data / 8 - 1).float()
train, test = draw_bags(600, order[:1200]), draw_bags(400, order[1200:])

# %%
# The network
# -----------
# Bags are padded to the same size, and `present` says what is padding.


class BagClassifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(64, 64), nn.ReLU())
        self.pool = HopfieldPooling(64, similarity="adaptive")
        self.read = nn.Linear(64, 1)

    def forward(self, instances: torch.Tensor, present: torch.Tensor) -> torch.Tensor:
        return self.read(self.pool(self.embed(instances), present=present)).squeeze(-1)

    def looked_at(self, instances: torch.Tensor, present: torch.Tensor) -> torch.Tensor:
        """How much each instance counted, (bags, instances)."""
        return self.pool.associate(self.embed(instances), present=present).weights[:, 0, 0]


torch.manual_seed(0)
network = BagClassifier()
optimizer = torch.optim.AdamW(network.parameters(), 2e-3)
places, present, is_nine = train
for _ in range(25):
    for batch in torch.randperm(len(places)).split(50):
        logits = network(images[places[batch]], present[batch])
        loss = nn.functional.binary_cross_entropy_with_logits(logits, is_nine[batch].any(dim=1).float())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

# %%
# Digits that it has never seen
# -----------------------------
# The share of bags that it gets right, and how much of its weight lies on the nines where there are any.

places, present, is_nine = test
positive = is_nine.any(dim=1)
with torch.no_grad():
    answers = network(images[places], present)
    weights = network.looked_at(images[places], present)
print(f"right in {((answers > 0) == positive).float().mean():.1%} of {len(places)} bags")
print(f"{(weights * is_nine).sum(dim=1)[positive].mean():.0%} of the weight is on nines,")
print(f"which are {(is_nine.sum(dim=1) / present.sum(dim=1))[positive].mean():.0%} of the digits in positive bags")

# %%
# Six bags, one in each row. The bar below a digit is its weight, red if the digit is a nine; what the network says of
# the bag stands at its left.

figure, axes = plt.subplots(6, LARGEST, figsize=(9.4, 6.4), layout="constrained")
for bag, row in enumerate(axes):
    for place, axis in enumerate(row):
        axis.set(xticks=[], yticks=[], xlim=(-0.5, 7.5), ylim=(10.5, -0.5), aspect="equal")
        axis.spines[:].set_visible(False)
        if present[bag, place]:
            axis.imshow(digits.images[places[bag, place]], cmap="Grays", extent=(-0.5, 7.5, 7.5, -0.5))
            weight = float(weights[bag, place])
            axis.barh(9.3, 8 * weight, left=-0.5, height=1.6, color=RED if is_nine[bag, place] else BLUE)
    label = f"{float(answers[bag].sigmoid()):.2f}"
    row[0].set_ylabel(label, rotation=0, ha="right", va="center", color=RED if positive[bag] else BLUE)
plt.show()
