"""The checks of `sandpiper doctor`: each looks at an outside part and says how to repair it.

One small file for each kind of part, and one table of all checks (`table.CHECKS`).
"""
