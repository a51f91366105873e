"""How does a model say no? Scenarios, personas, words and replies for a model server that refuses on purpose.

Laws: everything here is a function of the request's key and a seed; nothing is measured, sent or slept.
"""
