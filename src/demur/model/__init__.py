"""The vocabulary: frozen values that every stage takes and returns.

Nothing here computes a verdict, reads a file or knows a provider, and no value changes once it is made.
"""
