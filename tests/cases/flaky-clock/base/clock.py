import random
import time


def tick():
    time.sleep(random.random() / 20)
    return time.monotonic()
