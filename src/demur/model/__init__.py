"""The vocabulary: frozen values that every stage takes and returns.

Laws: nothing here computes a verdict, reads a file or knows a provider; a value never changes once made.
"""
