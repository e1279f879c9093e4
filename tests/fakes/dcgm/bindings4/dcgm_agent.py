"""dcgm_agent as DCGM 4 has it."""

import dcgm_fields as dcgm_fields
import dcgm_structs as dcgm_structs
from fakedcgm.agent import *  # noqa: F403
