"""The middle end: programs, their derivatives, and the passes that bring both to each back end."""
