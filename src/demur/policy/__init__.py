"""Claims in, a decision out, by Cedar rules that anyone can read, test and replay.

An error is never an allow, a warning never blocks, and a decision is a function of the recorded context and the policy texts.
"""
