"""TODO: worker/lab/case/head/ferrytimes"""
