"""`wp.utils`: what programs do with whole arrays besides launches."""
