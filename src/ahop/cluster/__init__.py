"""More patterns than one machine holds, and more queries than one answers: shards, replicas, jobs, HTTP."""

from ahop.cluster.batch import Matched, recall_dataset
from ahop.cluster.client import HttpClient
from ahop.cluster.cluster import Cluster, Status, connect
from ahop.cluster.http import Service, serve
from ahop.cluster.local import LocalCluster
from ahop.cluster.options import ShardOptions
from ahop.cluster.router import Timeouts
from ahop.cluster.view import ShardedRecaller

__all__ = [
    "Cluster",
    "HttpClient",
    "LocalCluster",
    "Matched",
    "Service",
    "ShardOptions",
    "ShardedRecaller",
    "Status",
    "Timeouts",
    "connect",
    "recall_dataset",
    "serve",
]
