"""Claims in, a decision out, by Cedar rules that anyone can read, test and replay.

Laws: an error is never an allow: a rule that cannot be evaluated counts as fired, a request that cannot be built is
denied; a warning never blocks; a decision is a function of the recorded context and the policy texts alone.
"""
