"""dcgm_structs as DCGM 3 has it."""

import os
import sys

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from fakedcgm import structs
from fakedcgm.structs import *  # noqa: F403
from fakedcgm.structs import _dcgmCheckReturn as _dcgmCheckReturn
from fakedcgm.structs import _dcgmGetFunctionPointer as _dcgmGetFunctionPointer
from fakedcgm.structs import _dcgmInit as _dcgmInit

structs.MAJOR = 3

DCGM_GROUP_MAX_ENTITIES = 64
