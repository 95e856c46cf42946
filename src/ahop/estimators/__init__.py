"""scikit-learn estimators: the same memories, in the interface that pipelines and searches expect."""
