"""Methods by their names, as a config and the command line give them."""

from __future__ import annotations

import pytest

from amends import methods
from amends.errors import BadInput


def test_methods_by_name():
    assert methods.named("linear", "ekfac") == methods.linear(methods.ekfac())
    assert methods.named("newton", "dense") == methods.newton(methods.dense(), line_search=True)
    assert methods.named("newton", gamma=0.1) == methods.newton(gamma=0.1)
    assert methods.named("ewc", "dense") == methods.ewc()
    for name, make in methods.BY_NAME.items():
        options = {"line_search": True} if name == "newton" else {}
        assert repr(methods.named(name)) == repr(make(**options)), name
    assert repr(methods.named("ogd", memory=7)) == repr(methods.ogd(7)) != repr(methods.ogd())


def test_an_option_that_a_method_does_not_take_is_named():
    with pytest.raises(BadInput, match="fine_tune has no option epoch; did you mean epochs"):
        methods.named("fine_tune", epoch=3)
    with pytest.raises(BadInput, match="default has no option epochs; choose one of budget"):
        methods.named("default", epochs=3)
