"""Several nodes that keep the same files: leader, follower and election as pure state machines (decision 0023)."""
