PORT = 8080


def port():
    return PORT
