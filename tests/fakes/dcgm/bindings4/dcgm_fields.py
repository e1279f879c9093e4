"""dcgm_fields as DCGM 4.6 has it: most constants renamed, the old names warn."""

import warnings
from typing import Any

import dcgm_structs as dcgm_structs
from fakedcgm.meta import DcgmFieldGetById as DcgmFieldGetById
from fakedcgm.meta import DcgmFieldsInit as DcgmFieldsInit
from fakedcgm.meta import c_dcgm_field_meta_t as c_dcgm_field_meta_t

DCGM_FE_GPU, DCGM_FE_GPU_I, DCGM_FE_GPU_CI = 1, 4, 5
DCGM_FI_DEV_GPU_NAME = 50
DCGM_FI_DEV_CLOCKS_EVENT_REASONS = 112
DCGM_FI_DEV_BOARD_POWER_WATTS = 155
DCGM_FI_DEV_GPU_UTIL_RATIO = 203
DCGM_FI_PROF_C2C_TX_ALL_BYTES = 1076

_OLD = {"DCGM_FI_DEV_NAME": 50, "DCGM_FI_DEV_POWER_USAGE": 155, "DCGM_FI_DEV_GPU_UTIL": 203}


def __getattr__(name: str) -> Any:
    if name in _OLD:
        warnings.warn(f"{name} is deprecated", DeprecationWarning, stacklevel=2)
        return _OLD[name]
    raise AttributeError(name)
