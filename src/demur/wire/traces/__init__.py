"""Trace formats → exchanges: what other people's tools write down of a model's answers.

One module a format family, by the protocol in `interface`; `formats` is the registry and the sniffer.
"""
