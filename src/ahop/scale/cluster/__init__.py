"""More patterns than one machine holds, and more queries than one answers: shards, replicas, jobs."""

import ahop._core.with_torch  # noqa: F401
from ahop.scale.cluster.batch import Matched, recall_dataset
from ahop.scale.cluster.cluster import Cluster, Status, connect
from ahop.scale.cluster.local import LocalCluster
from ahop.scale.cluster.router import Timeouts
from ahop.scale.cluster.spec import ShardOptions
from ahop.scale.cluster.view import ShardedRecaller

__all__ = [
    "Cluster",
    "LocalCluster",
    "Matched",
    "ShardOptions",
    "ShardedRecaller",
    "Status",
    "Timeouts",
    "connect",
    "recall_dataset",
]
