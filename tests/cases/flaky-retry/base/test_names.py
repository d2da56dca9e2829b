from names import greet


def test_all_are_greeted_in_order():
    assert greet(["Ada", "Bo", "Cy", "Di", "Eve", "Flo", "Gus"]) == "Ada, Bo, Cy, Di, Eve, Flo, Gus"
