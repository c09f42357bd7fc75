"""Document readers, chunking, quotes."""
