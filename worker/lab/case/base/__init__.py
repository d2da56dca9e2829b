"""TODO: worker/lab/case/base"""
