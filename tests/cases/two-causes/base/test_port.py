from port import port


def test_the_port_is_a_number():
    assert port() == 8080
