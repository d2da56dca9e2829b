"""TODO: worker/lab/case/base/tools"""
