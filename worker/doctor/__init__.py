"""The checks of `sandpiper doctor`: each examines an external part and says how to repair it.

There is one small file for each kind of part, and one table of all checks (`table.CHECKS`).
"""
