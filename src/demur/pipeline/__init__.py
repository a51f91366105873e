"""The one place that joins stages: wire → text → detect.

Laws: values in, values out; the same functions run in the library, in the gateway and in batch.
"""
