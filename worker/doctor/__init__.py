"""What `sandpiper doctor` looks at: every outside part, and what to do about what is wrong.

One small file for each kind of part, and one table of all checks (`table.CHECKS`).
"""
