"""Warren's data pipeline on Spark."""
