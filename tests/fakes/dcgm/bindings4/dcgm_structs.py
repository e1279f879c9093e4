"""dcgm_structs as DCGM 4 has it."""

import os
import sys

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from fakedcgm.structs import *  # noqa: F403
from fakedcgm.structs import _dcgmInit as _dcgmInit

DCGM_GROUP_MAX_ENTITIES_V2 = 1024
