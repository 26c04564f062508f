"""An LSTM computes as many steps ahead as there is room for, and no more."""

from __future__ import annotations

import itertools

import pytest

from tilewright.config import PRESETS, Config
from tilewright.jit.errors import PlaceError
from tilewright.jit.recurrent.lstm_places import Kept, LstmPlaces

CONFIGS = {
    "tiny": PRESETS["tiny"],
    "pynq-z2": PRESETS["pynq-z2"],
    "small acc": PRESETS["pynq-z2"].replace(acc_bytes=32 << 10),
    "small act": PRESETS["pynq-z2"].replace(act_bytes=16 << 10),
}
SIZES = [*range(1, 12), 16, 24, 31, 32, 33, 48, 64, 100]


def placed(config: Config, kept: Kept, buffers: int, apart: bool) -> LstmPlaces | None:
    try:
        return LstmPlaces(config, kept, buffers, apart)
    except PlaceError:
        return None


@pytest.mark.parametrize("config", CONFIGS.values(), ids=list(CONFIGS))
@pytest.mark.parametrize("apart", [False, True], ids=["halves", "quarters"])
def test_where_a_step_ahead_fits_the_chosen_number_does(
    config: Config, apart: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for n, pixel, buffers, biased in itertools.product(SIZES, (1, 2, 9, 40), (1, 2), ((False,), (True, True))):
        kept = Kept(n, pixel, 100, biased)
        with monkeypatch.context() as one_step:
            one_step.setattr(LstmPlaces, "_apart" if apart else "_together", lambda _: 1)
            fits = placed(config, kept, buffers, apart) is not None
        if fits:
            at = placed(config, kept, buffers, apart)
            assert at is not None, kept
            found.append(at.ahead)
    assert len(found) > 150
    assert max(found) >= 16
