"""Archives of streams: Parquet files that retention writes before it deletes, and that the source reads as history."""
