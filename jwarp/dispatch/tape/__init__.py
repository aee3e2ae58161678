"""Tapes and captures: what they record, as steps that are run again."""
