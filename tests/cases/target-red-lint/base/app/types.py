import os


def kind(value):
    return type(value).__name__
