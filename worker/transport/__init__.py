"""HTTP whose answers end: a total deadline on the socket, and nothing that was not asked for.

A time-out of httpx, requests or boto3 is the silence between two reads. A server that sends a byte
a second, of its headers or its body, would hold a thread for hours. Answers are packed only as was
asked for, once, since 1.8 KB of `gzip, gzip` are 2 GB: httpx, which unpacks a piece whole before
its bytes can be counted, asks for plain ones; requests, which does not, for gzip.
"""
