"""TODO: worker/lab/case/base/tests"""
