"""TODO: worker/lab/case/head"""
