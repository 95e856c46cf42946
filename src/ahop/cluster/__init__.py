"""More patterns than one machine holds, and more queries than one answers: shards, replicas, jobs, HTTP."""

from ahop.cluster.asking import Patience
from ahop.cluster.connecting import Cluster, Status, connect
from ahop.cluster.local import Shards
from ahop.cluster.matching import Matched, recall_dataset
from ahop.cluster.options import ShardOptions
from ahop.cluster.recalling import Recaller
from ahop.cluster.serving import Service, serve

__all__ = [
    "Cluster",
    "Matched",
    "Patience",
    "Recaller",
    "Service",
    "ShardOptions",
    "Shards",
    "Status",
    "connect",
    "recall_dataset",
    "serve",
]
