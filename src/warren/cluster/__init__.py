"""A node of a cluster, from start to stop, and its three roles: to stand for election, to lead, to follow."""
