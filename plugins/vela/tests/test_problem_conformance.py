"""Schedules of Vela do what every problem must do."""

from __future__ import annotations

import importlib.util

import pytest
from capability_suite import *  # noqa: F403
from problem_suite import *  # noqa: F403

from egrl_vela.compiler import Target
from egrl_vela.problem import VelaConfig, VelaProblem
from hwsim.problem import Problem
from tiny_models import convolutions

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def problem(tmp_path_factory: pytest.TempPathFactory) -> Problem:
    if importlib.util.find_spec("ethosu") is None:
        pytest.skip("needs Arm's Vela: pip install ethos-u-vela==5.2.0")
    model = tmp_path_factory.mktemp("net") / "net.tflite"
    model.write_bytes(convolutions([16, 32, 32, 16], 96))
    return VelaProblem(
        Target(str(model), "ethos-u65-256", "Ethos_U65_High_End", "Dedicated_Sram_384KB"), VelaConfig()
    )
