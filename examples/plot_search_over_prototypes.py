r"""
A search over prototypes
========================

A table with gaps and a column of categories, classified by likeness to prototypes. Everything around the classifier is
scikit-learn's own: a `ColumnTransformer`, a `Pipeline`, a `GridSearchCV`. Gaps need no imputer, they stay gaps.
"""

# %%
# The wines of scikit-learn, with a third of the numbers lost and one column turned into words.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_wine
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder

from ahop.estimators import PrototypeClassifier, PrototypeDisplay

wine = load_wine(as_frame=True)
frame, cultivar = wine.data, wine.target_names[wine.target]
frame = frame.rename(columns={"od280/od315_of_diluted_wines": "od280/od315"})
strength = pd.cut(frame["alcohol"], 3, labels=["light", "medium", "strong"])
frame = frame.mask(np.random.default_rng(0).random(frame.shape) < 0.33).assign(alcohol=strength)
print(frame.iloc[:4, :5])

# %%
# The search
# ----------
# Categories are encoded, numbers pass as they are. The search asks how many prototypes there should be, and whether
# columns are cut where the classes change (`intervals`) or just standardized.

encode = ColumnTransformer(
    [("words", OneHotEncoder(handle_unknown="ignore", sparse_output=False), ["alcohol"])],
    remainder="passthrough",
    verbose_feature_names_out=False,
)
classify = PrototypeClassifier(n_members=2, n_jobs=1, random_state=0)
pipeline = Pipeline([("encode", encode), ("classify", classify)])
grid = {"classify__n_prototypes": [4, 32], "classify__intervals": [None, 8]}
search = GridSearchCV(pipeline, grid, cv=3)
train, test, known, hidden = train_test_split(frame, cultivar, stratify=cultivar, random_state=0)
search.fit(train, known)

tried = pd.DataFrame(search.cv_results_).filter(regex="param_|mean_test").astype(object)
tried.columns = ["intervals", "prototypes", "accuracy"]
print(tried.to_string(index=False))
print(f"accuracy of the best on rows kept aside: {search.score(test, hidden):.3f}")

# %%
# Which prototypes decided?
# -------------------------
# Take the row of which the winner is least sure. A bar is what the log odds of the predicted class owe to one
# prototype: if the row were as alike to it as to the others, the log odds would be less by so much. Blue are prototypes
# that the row is more alike to than to most. Beside the bars stands where a prototype differs most from the row.

best = search.best_estimator_
doubtful = test.iloc[[best.predict_proba(test).max(axis=1).argmin()]]
print(doubtful.T.to_string(header=False))
PrototypeDisplay.from_estimator(best, doubtful)
plt.show()

# %%
# Which ranks decided?
# --------------------
# The paper's classifier has the centers of clusters for prototypes and compares the columns themselves. Its adaptive
# similarity sorts them by how well a row and a prototype agree, and each rank has a weight. So the picture can also
# tell at which ranks the decision was made, for the distance and for the inner product.

added = {"intervals": None, "embedding": None, "n_members": 1, "n_row_memories": 0, "learn_prototypes": False}
classify = PrototypeClassifier(24, similarity="adaptive", init="kmeans", loss="squared", random_state=0, **added)
classify.set_params(learning_rate=0.01, max_epochs=60)
paper = Pipeline([("encode", encode), ("classify", classify)]).fit(train, known)
print(f"accuracy on rows kept aside: {paper.score(test, hidden):.3f}")
PrototypeDisplay.from_estimator(paper, doubtful)
plt.show()
