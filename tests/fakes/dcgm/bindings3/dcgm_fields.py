"""dcgm_fields as DCGM 3 has it: the names of its time, and no C2C."""

import dcgm_structs as dcgm_structs
from fakedcgm.meta import DcgmFieldGetById as DcgmFieldGetById
from fakedcgm.meta import DcgmFieldsInit as DcgmFieldsInit
from fakedcgm.meta import c_dcgm_field_meta_t as c_dcgm_field_meta_t

DCGM_FE_GPU, DCGM_FE_GPU_I, DCGM_FE_GPU_CI = 1, 4, 5
DCGM_FI_DEV_NAME = 50
DCGM_FI_DEV_CLOCK_THROTTLE_REASONS = 112
DCGM_FI_DEV_POWER_USAGE = 155
DCGM_FI_DEV_GPU_UTIL = 203
DCGM_FI_PROF_SM_ACTIVE = 1002
