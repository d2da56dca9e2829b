"""TODO: worker/lab/case"""
